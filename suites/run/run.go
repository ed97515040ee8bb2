package run

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gofrs/flock"

	"github.com/holdfast-ha/holdfast/clusters"
	"github.com/holdfast-ha/holdfast/framework/judge"
	"github.com/holdfast-ha/holdfast/framework/record"
	"github.com/holdfast-ha/holdfast/framework/redact"
	"github.com/holdfast-ha/holdfast/scenarios"
)

// Board shows the progress of a plan. Its methods may be called concurrently.
type Board interface {
	// Says shows a line about a part.
	Says(part, line string)
	// Begins and Settled show that a scenario of a part starts, and its outcome.
	Begins(part, scenario string)
	Settled(part string, s Settled)
	// Ended shows that a part is over.
	Ended(part string)
	// Fewer shows that from now on only parallel parts run scenarios at a time.
	Fewer(parallel int)
	// Close is called when all parts are over.
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

// CarryOut runs the plan with results in the directory dir, which it creates, and repeats
// scenarios that an overloaded machine spoiled. It returns the verdicts, also those of the program's
// own judges, and writes them to dir; Problem in the plan says why the run stopped early, or what
// it could not do, if anything.
func (p *Plan) CarryOut(ctx context.Context, provider clusters.Provider, dir string, show Show, own ...judge.Judge) (*Verdicts, error) {
	if err := os.MkdirAll(filepath.Join(dir, "logs"), 0o755); err != nil {
		return nil, fmt.Errorf("failed to create the results directory: %w; name another one with --out", err)
	}
	unlock, err := lock(dir)
	if err != nil {
		return nil, err
	}
	defer unlock()
	if err := p.Save(dir); err != nil {
		return nil, err
	}
	return p.finish(ctx, provider, dir, show, p.parts(ctx, provider, dir, show), own)
}

// Resume continues a run that stopped early, in its results directory: it runs the scenarios that
// are not settled, and returns as CarryOut does. It keeps the other records; see Unsettled. The error
// is ErrChanged if verdicts on an existing cluster would rest on something else than those so far.
func (p *Plan) Resume(ctx context.Context, provider clusters.Provider, dir string, show Show, own ...judge.Judge) (*Verdicts, error) {
	unlock, err := lock(dir)
	if err != nil {
		return nil, err
	}
	defer unlock()
	names := p.Unsettled(dir, own...)
	for _, name := range names { // it may have been killed while it repeated scenarios
		if err := p.Restore(dir, name, OverloadedDir, own...); err != nil {
			return nil, err
		}
	}
	names = slices.DeleteFunc(names, func(name string) bool { return p.settled(dir, name, own...) })
	if len(names) > 0 {
		if err := p.unchanged(ctx, provider); err != nil {
			return nil, err
		}
	}
	p.Problem = ""
	for i := range p.Parts {
		p.Parts[i].Problem, p.Parts[i].earlier = "", true
		if err := p.Parts[i].removeData(dir); err != nil {
			return nil, err
		}
	}
	var problem error
	if len(names) > 0 {
		problem = p.again(ctx, provider, dir, names, p.Parallel, interruptedDir, show, own...)
	}
	problem = errors.Join(problem, sweep(ctx, provider)) // what the earlier run could not delete
	return p.finish(ctx, provider, dir, show, problem, own)
}

// interruptedDir is where a results directory keeps the incomplete records that a resumed run
// found.
const interruptedDir = "interrupted"

// Unsettled returns the scenarios of the plan without a complete record in the results directory,
// except those that do not apply to their cluster. A scenario that was interrupted after a violation
// that nothing later can explain is settled: that verdict stands.
func (p *Plan) Unsettled(dir string, own ...judge.Judge) (names []string) {
	for _, s := range p.Scenarios {
		if s.NotFor(p.Part(s).Cluster.Size()) == "" && !p.settled(dir, s.Metadata.Name, own...) {
			names = append(names, s.Metadata.Name)
		}
	}
	return names
}

// settled reports whether a scenario has a complete record, as for Unsettled.
func (p *Plan) settled(dir, scenario string, own ...judge.Judge) bool {
	seen, err := record.Read(record.Dir(dir, scenario))
	return err == nil && seen.Complete && seen.Meta.Run == p.Run && (seen.End.Error == "" || Failed(judge.Evaluate(seen, own...)))
}

// Failed reports whether a requirement failed.
func Failed(results []judge.Result) bool {
	return slices.ContainsFunc(results, func(r judge.Result) bool { return r.Verdict == judge.Fail })
}

// lock locks the results directory for one process at a time. The kernel unlocks it when the
// process exits, for any reason.
func lock(dir string) (unlock func(), err error) {
	l := flock.New(dir, flock.SetFlag(os.O_RDONLY))
	held, err := l.TryLock()
	if err != nil {
		return nil, fmt.Errorf("failed to lock the results directory: %w", err)
	}
	if !held {
		return nil, fmt.Errorf("%w: the results directory %s is in use by another holdfast process; wait for it to finish, or stop it", ErrBusy, dir)
	}
	return func() { _ = l.Close() }, nil
}

// ErrBusy is in the error of a run whose results directory another process writes to.
var ErrBusy = errors.New("busy")

// finish judges the records, repeats scenarios that an overloaded machine spoiled, and writes the
// plan and the reports. The problem is why some scenarios did not run.
func (p *Plan) finish(ctx context.Context, provider clusters.Provider, dir string, show Show, problem error, own []judge.Judge) (*Verdicts, error) {
	problem = errors.Join(problem, p.LetGo(ctx, provider))
	judged := func() *Verdicts {
		if p.Ended.IsZero() {
			p.Ended = time.Now()
		}
		if problem != nil { // verdicts on scenarios that did not run cite it
			p.Problem = redact.New().Text(problem.Error())
		}
		return p.Judge(dir, own...)
	}
	v := judged()
	if problem == nil && p.repeats(len(Starved(v.Results))) {
		names := Starved(v.Results)
		show.Line("the machine was overloaded during %s: they are repeated, one at a time", strings.Join(names, ", "))
		problem = p.again(ctx, provider, dir, names, 1, OverloadedDir, show, own...)
		v = judged()
	}
	if err := p.Save(dir); err != nil {
		return nil, errors.Join(problem, err)
	}
	if err := v.Write(dir); err != nil {
		return nil, errors.Join(problem, err)
	}
	return v, nil
}

// parts runs the parts of the plan, as many at a time as the plan says. A part that ends early
// does not stop the others; the error names each part that did.
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
	turns := newTurns(p.Parallel)
	var all sync.WaitGroup
	for range p.Parallel {
		all.Go(func() {
			for part := range queue {
				err := ErrInterrupted
				if ctx.Err() == nil {
					h := p.Host(provider, dir, part, func(line string) { b.Says(part.Name, line) })
					err = errors.Join(h.all(ctx, turns, b), h.Close(ctx))
				}
				if b.Ended(part.Name); err != nil {
					part.Problem = redact.New().Text(err.Error())
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

// all runs the scenarios of a part, and returns why some did not run. If a worker dies, another
// one continues with the next scenario.
func (h *Host) all(ctx context.Context, turns *turns, b Board) error {
	var problems []error
	for _, name := range h.part.Scenarios {
		if !turns.take(ctx) {
			return errors.Join(append(problems, ErrInterrupted)...)
		}
		var s Settled
		err := h.Create(ctx)
		created := err == nil
		if ctx.Err() == nil && created {
			b.Begins(h.part.Name, name)
			if s, err = h.Run(ctx, name); err == nil {
				b.Settled(h.part.Name, s)
			}
		}
		if left, fewer := turns.give(s.Results); fewer {
			b.Fewer(left)
		}
		if ctx.Err() == nil && !created {
			return errors.Join(append(problems, err)...) // creating a cluster fails
		}
		if ctx.Err() != nil {
			if created { // else the interrupt is why
				problems = append(problems, err)
			}
			return errors.Join(append(problems, ErrInterrupted)...)
		}
		if err != nil {
			b.Says(h.part.Name, fmt.Sprintf("%s: %v", name, err))
			problems = append(problems, err)
		}
	}
	return errors.Join(problems...)
}

// repeats reports whether to repeat scenarios that lost verdicts on an overloaded machine: with
// fewer beside them or, if they ran alone and most others kept their verdicts, on a new cluster.
func (p *Plan) repeats(starved int) bool {
	return starved > 0 && !p.Attach && (p.Parallel > 1 || 2*starved <= len(p.Scenarios))
}

// again runs scenarios of the plan on separate clusters, up to that many at a time, and puts
// their earlier records aside. A scenario without a second record keeps the first one, also if only
// the first one is whole.
func (p *Plan) again(ctx context.Context, provider clusters.Provider, dir string, names []string, parallel int, aside string, show Show, own ...judge.Judge) error {
	again := *p
	again.Parts, again.Scenarios = nil, slices.DeleteFunc(slices.Clone(p.Scenarios), func(s *scenarios.Scenario) bool { return !slices.Contains(names, s.Metadata.Name) })
	if err := again.Divide(provider, parallel); err != nil {
		return err
	}
	for _, name := range names {
		if part := p.partOf(name); aside == OverloadedDir && part != nil {
			part.judged(name) // by a run that was killed before it saved that, perhaps
		}
	}
	before := len(p.Parts)
	for i := range again.Parts {
		again.Parts[i].Name = fmt.Sprintf("cluster-%d", before+i+1)
	}
	p.Parts, p.Ended = append(p.Parts, again.Parts...), time.Time{}
	if err := p.Save(dir); err != nil { // workers read it
		return err
	}
	for _, name := range names {
		if err := PutAside(dir, name, aside); err != nil {
			return err
		}
	}
	problem := again.parts(ctx, provider, dir, show)
	p.Parts = append(p.Parts[:before], again.Parts...)
	for _, name := range names {
		if aside == OverloadedDir {
			problem = errors.Join(problem, p.Restore(dir, name, aside, own...))
		} else {
			problem = errors.Join(problem, p.bringBack(dir, name, aside))
		}
	}
	return problem
}
