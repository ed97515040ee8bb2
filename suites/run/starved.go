package run

import (
	"fmt"
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
// replaces one that is already there.
func PutAside(results, scenario, to string) error {
	aside := filepath.Join(results, to, scenario)
	err := os.MkdirAll(filepath.Dir(aside), 0o755)
	if err == nil {
		err = os.RemoveAll(aside)
	}
	if err == nil {
		err = os.Rename(record.Dir(results, scenario), aside)
	}
	if err != nil {
		return fmt.Errorf("failed to set aside what is repeated: %w", err)
	}
	return nil
}
