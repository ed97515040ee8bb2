package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"time"

	"github.com/holdfast-ha/holdfast/clusters/release"
)

// pace is how long scenarios take here, as a multiple of their expected time on an idle machine
// with two cores. It starts from the last run's pace and adapts to this run's.
type pace struct {
	before          float64
	spent, expected time.Duration // of the completed scenarios
}

// paceWeight is how much time of scenarios the last run's pace counts for.
const paceWeight = time.Minute

func (p *pace) add(spent, expected time.Duration) {
	p.spent, p.expected = p.spent+spent, p.expected+expected
}

func (p *pace) factor() float64 {
	return (p.before*float64(paceWeight) + float64(p.spent)) / float64(paceWeight+p.expected)
}

// of returns how long something is expected to take here.
func (p *pace) of(expected time.Duration) time.Duration {
	return time.Duration(p.factor() * float64(expected))
}

// paceFile returns the file with the paces of this machine, by provider. A pace that cannot be
// read or is out of range counts as 1; write errors are ignored.
func paceFile() (string, error) {
	dir, err := release.DefaultCacheDir()
	return filepath.Join(dir, "pace.json"), err
}

func readPaces() map[string]float64 {
	all := map[string]float64{}
	if path, err := paceFile(); err == nil {
		if text, err := os.ReadFile(path); err == nil && json.Unmarshal(text, &all) != nil {
			return map[string]float64{}
		}
	}
	return all
}

// rememberedPace returns the pace of a provider's clusters on this machine.
func rememberedPace(provider string) pace {
	if f := readPaces()[provider]; f >= 0.2 && f <= 20 {
		return pace{before: f}
	}
	return pace{before: 1}
}

// remember saves the pace for the next run, unless the run was too short.
func (p *pace) remember(provider string) {
	if p.expected < paceWeight {
		return
	}
	path, err := paceFile()
	if err != nil {
		return
	}
	all := readPaces()
	all[provider] = p.factor()
	if text, err := json.Marshal(all); err == nil && os.MkdirAll(filepath.Dir(path), 0o755) == nil {
		_ = os.WriteFile(path, text, 0o644)
	}
}
