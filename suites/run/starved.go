package run

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/holdfast-ha/holdfast/framework/judge"
	"github.com/holdfast-ha/holdfast/framework/record"
)

// OverloadedDir is where a results directory keeps the records of scenarios that were repeated
// because the machine was overloaded the first time.
const OverloadedDir = "overloaded"

// Starved returns the scenarios that lost verdicts because the machine was overloaded. It omits
// scenarios with a failed requirement: that verdict stands.
func Starved(results []judge.Result) (names []string) {
	failed := map[string]bool{}
	for _, r := range results {
		failed[r.Scenario] = failed[r.Scenario] || r.Verdict == judge.Fail
	}
	for _, r := range results {
		if r.Judge == "harness" && r.Verdict == judge.Inconclusive && !failed[r.Scenario] && !slices.Contains(names, r.Scenario) {
			names = append(names, r.Scenario)
		}
	}
	return names
}

// EarlierDir is where a results directory keeps the records of scenarios that a user asked to
// repeat.
const EarlierDir = "earlier"

// PutAside moves the record of a scenario to repeat to another directory of the results, and
// replaces one that is already there. It does nothing if the scenario left no record.
func PutAside(results, scenario, to string) error {
	kept, aside := record.Dir(results, scenario), filepath.Join(results, to, scenario)
	_, err := os.Stat(kept)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = os.MkdirAll(filepath.Dir(aside), 0o755)
	}
	if err == nil {
		err = os.RemoveAll(aside)
	}
	if err == nil {
		err = os.Rename(kept, aside)
	}
	if err != nil {
		return fmt.Errorf("failed to set aside what is repeated: %w", err)
	}
	return nil
}

// Restore brings back the record that PutAside has moved, if there is one and the repetition left none
// that is settled (see Unsettled).
func (p *Plan) Restore(results, scenario, from string, own ...judge.Judge) error {
	_, err := os.Stat(filepath.Join(results, from, scenario))
	if errors.Is(err, fs.ErrNotExist) || err == nil && p.settled(results, scenario, own...) {
		return nil
	}
	if err == nil {
		err = os.RemoveAll(record.Dir(results, scenario))
	}
	if err != nil {
		return fmt.Errorf("failed to bring back what was not repeated: %w", err)
	}
	return p.bringBack(results, scenario, from)
}

// bringBack moves the record of a scenario that PutAside has moved back, unless the scenario has another
// one. It is of the part before the one that was to repeat it.
func (p *Plan) bringBack(results, scenario, from string) error {
	kept := record.Dir(results, scenario)
	if _, err := os.Stat(kept); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	err := os.Rename(filepath.Join(results, from, scenario), kept)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("failed to bring back what was not repeated: %w", err)
	}
	last := p.partOf(scenario)
	if slices.ContainsFunc(p.Parts, func(one Part) bool { return slices.Contains(one.Scenarios, scenario) && one.Name != last.Name }) {
		last.Scenarios = slices.DeleteFunc(last.Scenarios, func(s string) bool { return s == scenario })
	}
	return nil
}
