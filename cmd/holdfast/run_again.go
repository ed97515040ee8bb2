package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/holdfast-ha/holdfast/framework/judge"
	"github.com/holdfast-ha/holdfast/framework/record"
	"github.com/holdfast-ha/holdfast/scenarios"
)

// overloadedDir is where a results directory keeps the records of scenarios that were
// repeated, since the machine was overloaded the first time.
const overloadedDir = "overloaded"

// starved returns the scenarios that lost verdicts since the machine was overloaded. One
// of which a requirement failed all the same is not among them: that stands.
func starved(results []judge.Result) (names []string) {
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

// repeat runs scenarios once more, with nothing beside them, and puts their first records
// aside. A scenario of which there is no second record keeps the first one.
func (p *plan) repeat(ctx context.Context, dir string, names []string, shown *progress) error {
	shown.Line("the machine was overloaded during %s: they are repeated, one at a time", strings.Join(names, ", "))
	again := *p
	again.Parts, again.Scenarios = nil, slices.DeleteFunc(slices.Clone(p.Scenarios), func(s *scenarios.Scenario) bool { return !slices.Contains(names, s.Metadata.Name) })
	if err := again.divide(1); err != nil {
		return err
	}
	before := len(p.Parts)
	for i := range again.Parts {
		again.Parts[i].Name = fmt.Sprintf("cluster-%d", before+i+1)
	}
	p.Parts = append(p.Parts, again.Parts...)
	if err := savePlan(dir, p); err != nil { // workers read it
		return err
	}
	for _, name := range names {
		if err := os.MkdirAll(filepath.Join(dir, overloadedDir), 0o755); err != nil {
			return fmt.Errorf("putting aside what is repeated: %w", err)
		}
		if err := os.Rename(record.Dir(dir, name), filepath.Join(dir, overloadedDir, name)); err != nil {
			return fmt.Errorf("putting aside what is repeated: %w", err)
		}
	}
	problem := again.carryOut(ctx, dir, shown)
	p.Parts = append(p.Parts[:before], again.Parts...)
	for _, name := range names {
		if _, err := os.Stat(record.Dir(dir, name)); errors.Is(err, fs.ErrNotExist) {
			problem = errors.Join(problem, os.Rename(filepath.Join(dir, overloadedDir, name), record.Dir(dir, name)))
		}
	}
	return problem
}
