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

// BringBack moves the record of a scenario that PutAside has moved back, unless the scenario has
// another one. It reports whether it did.
func BringBack(results, scenario, from string) (bool, error) {
	kept := record.Dir(results, scenario)
	if _, err := os.Stat(kept); !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	err := os.Rename(filepath.Join(results, from, scenario), kept)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, fmt.Errorf("failed to bring back what was not repeated: %w", err)
	}
	return err == nil, nil
}
