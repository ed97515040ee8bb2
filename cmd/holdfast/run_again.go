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

	"github.com/holdfast-ha/holdfast/framework/record"
	"github.com/holdfast-ha/holdfast/scenarios"
	"github.com/holdfast-ha/holdfast/suites"
)

// repeats tells whether it is worth while to repeat the scenarios, so many, that lost
// verdicts on an overloaded machine: with less beside them, or, where nothing was, when
// most of the others were not lost, on a cluster that is new.
func (p *plan) repeats(starved int) bool {
	return starved > 0 && !p.Attach && (p.Parallel > 1 || 2*starved <= len(p.Scenarios))
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
		if err := suites.PutAside(dir, name); err != nil {
			return err
		}
	}
	problem := again.carryOut(ctx, dir, shown)
	p.Parts = append(p.Parts[:before], again.Parts...)
	for _, name := range names {
		if _, err := os.Stat(record.Dir(dir, name)); errors.Is(err, fs.ErrNotExist) {
			problem = errors.Join(problem, os.Rename(filepath.Join(dir, suites.OverloadedDir, name), record.Dir(dir, name)))
		}
	}
	return problem
}
