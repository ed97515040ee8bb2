package run

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-ha/holdfast/clusters"
	"github.com/holdfast-ha/holdfast/framework/record"
	"github.com/holdfast-ha/holdfast/scenarios"
)

// Board shows how a plan progresses. Several goroutines may call its methods.
type Board interface {
	// Says shows a line about a part.
	Says(part, line string)
	// Begins and Settled show that a scenario of a part starts, and what came of it.
	Begins(part, scenario string)
	Settled(part string, s Settled)
	// Ended shows that nothing of a part runs any more.
	Ended(part string)
	// Close is called when all parts have ended.
	Close()
}

// Show is how a run shows its progress.
type Show struct {
	// Line prints a line that stays.
	Line func(format string, args ...any)
	// Board returns the board of a plan.
	Board func(*Plan) (Board, error)
}

// ErrInterrupted is in the error of a run that was interrupted.
var ErrInterrupted = errors.New("interrupted")

// CarryOut runs the plan with results in the directory dir, which it creates, and
// repeats scenarios that an overloaded machine spoiled. It returns the verdicts, which it
// has also written to dir; Problem in the plan says why the run ended early, if it did.
func (p *Plan) CarryOut(ctx context.Context, provider clusters.Provider, dir string, show Show) (*Verdicts, error) {
	if err := os.MkdirAll(filepath.Join(dir, "logs"), 0o755); err != nil {
		return nil, fmt.Errorf("failed to create the results directory: %w; name another one with --out", err)
	}
	if err := p.Save(dir); err != nil {
		return nil, err
	}
	problem := errors.Join(p.parts(ctx, provider, dir, show), p.letGo(ctx, provider))
	p.Ended = time.Now()
	v, err := p.Judge(dir)
	if err == nil && problem == nil && p.repeats(len(Starved(v.Results))) {
		problem = p.repeat(ctx, provider, dir, Starved(v.Results), show)
		p.Ended = time.Now()
		v, err = p.Judge(dir)
	}
	if problem != nil {
		p.Problem = problem.Error()
	}
	if err := errors.Join(p.Save(dir), err); err != nil {
		return nil, errors.Join(problem, err)
	}
	if err := v.Write(dir); err != nil {
		return nil, errors.Join(problem, err)
	}
	return v, nil
}

// parts runs the parts of the plan, as many at a time as it says. A part that ends early
// does not stop the others; the error names each that did.
func (p *Plan) parts(ctx context.Context, provider clusters.Provider, dir string, show Show) error {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	b, err := show.Board(p)
	if err != nil {
		return err
	}
	defer b.Close()
	queue := make(chan *Part, len(p.Parts))
	for i := range p.Parts {
		queue <- &p.Parts[i]
	}
	close(queue)
	var all sync.WaitGroup
	for range p.Parallel {
		all.Go(func() {
			for part := range queue {
				err := ErrInterrupted
				if ctx.Err() == nil {
					h := p.Host(provider, dir, part, func(line string) { b.Says(part.Name, line) })
					err = errors.Join(h.all(ctx, b), h.Close(ctx))
				}
				if b.Ended(part.Name); err != nil {
					part.Problem = err.Error()
				}
			}
		})
	}
	all.Wait()
	var problems []error
	for _, one := range p.Parts {
		if one.Problem != "" {
			problems = append(problems, fmt.Errorf("%s: %s", one.Name, one.Problem))
		}
	}
	return errors.Join(problems...)
}

// all runs the scenarios of a part, and returns why not all were run, if so. If a worker
// dies, another one continues with the next scenario.
func (h *Host) all(ctx context.Context, b Board) error {
	var problems []error
	for _, name := range h.part.Scenarios {
		err := h.Create(ctx)
		if ctx.Err() == nil && err == nil {
			b.Begins(h.part.Name, name)
			var s Settled
			if s, err = h.Run(ctx, name); err == nil {
				b.Settled(h.part.Name, s)
			}
		} else if ctx.Err() == nil {
			return errors.Join(append(problems, err)...) // no cluster can be created
		}
		if ctx.Err() != nil {
			return ErrInterrupted
		}
		if err != nil {
			b.Says(h.part.Name, fmt.Sprintf("%s: %v", name, err))
			problems = append(problems, err)
		}
	}
	return errors.Join(problems...)
}

// repeats reports whether it is worth repeating as many scenarios that lost verdicts on an
// overloaded machine: with less beside them or, if nothing was, when most of the others
// were not lost, on a new cluster.
func (p *Plan) repeats(starved int) bool {
	return starved > 0 && !p.Attach && (p.Parallel > 1 || 2*starved <= len(p.Scenarios))
}

// repeat runs scenarios once more, with nothing beside them, and puts their first records
// aside. A scenario that leaves no second record keeps the first one.
func (p *Plan) repeat(ctx context.Context, provider clusters.Provider, dir string, names []string, show Show) error {
	show.Line("the machine was overloaded during %s: they are repeated, one at a time", strings.Join(names, ", "))
	again := *p
	again.Parts, again.Scenarios = nil, slices.DeleteFunc(slices.Clone(p.Scenarios), func(s *scenarios.Scenario) bool { return !slices.Contains(names, s.Metadata.Name) })
	if err := again.Divide(provider, 1); err != nil {
		return err
	}
	before := len(p.Parts)
	for i := range again.Parts {
		again.Parts[i].Name = fmt.Sprintf("cluster-%d", before+i+1)
	}
	p.Parts = append(p.Parts, again.Parts...)
	if err := p.Save(dir); err != nil { // workers read it
		return err
	}
	for _, name := range names {
		if err := PutAside(dir, name, OverloadedDir); err != nil {
			return err
		}
	}
	problem := again.parts(ctx, provider, dir, show)
	p.Parts = append(p.Parts[:before], again.Parts...)
	for _, name := range names {
		if _, err := os.Stat(record.Dir(dir, name)); errors.Is(err, fs.ErrNotExist) {
			problem = errors.Join(problem, os.Rename(filepath.Join(dir, OverloadedDir, name), record.Dir(dir, name)))
		}
	}
	return problem
}
