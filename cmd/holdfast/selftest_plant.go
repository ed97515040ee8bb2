package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"

	"github.com/spf13/cobra"

	"github.com/holdfast-ha/holdfast/clusters/local"
	"github.com/holdfast-ha/holdfast/framework/scratch"
	"github.com/holdfast-ha/holdfast/reports"
	"github.com/holdfast-ha/holdfast/suites/selftest"
)

// outcomesFile has the outcomes of a selftest in its directory: one line with the version of
// holdfast, and one per outcome.
const outcomesFile = "outcomes.jsonl"

// plantAll runs the work in sandboxes: up to parallel batches at a time, then the unclear units
// again, and what was left on a machine too slow for that, one at a time. Records and logs go to out, unless it is empty; resume is the directory of
// an earlier selftest to continue instead. If it fails, it also returns the outcomes of the runs
// so far.
func plantAll(cmd *cobra.Command, work []selftest.Batch, parallel int, out, resume string) ([]selftest.Outcome, error) {
	p := &planting{shown: newProgress(cmd.ErrOrStderr())}
	switch {
	case resume != "":
		if err := p.load(resume); err != nil {
			return nil, err
		}
		p.dir = resume
	case out != "":
		if err := checkResultsDir(out); err != nil {
			return nil, err
		}
		p.dir = out
	default:
		dir, remove, err := scratch.Dir("holdfast-selftest-")
		if err != nil {
			return nil, fmt.Errorf("failed to make a directory for records: %w; name one with --out", err)
		}
		defer func() { _ = remove() }()
		p.dir = dir
	}
	work = selftest.Left(work, p.outcomes)
	for _, spec := range selftest.Clusters(work) {
		if err := prepare(cmd.Context(), local.Provider{}, p.shown, spec); err != nil {
			return nil, err
		}
	}
	if err := p.open(); err != nil {
		return nil, err
	}
	defer p.file.Close()
	defer p.shown.Done()

	ctx := cmd.Context()
	if parallel > 1 {
		together, stop := context.WithCancel(ctx)
		p.carryOut(together, selftest.Shared(work, parallel), parallel, stop)
		stop()
	}
	if ctx.Err() == nil {
		p.carryOut(ctx, selftest.Left(work, p.outcomes), 1, nil)
	}
	if ctx.Err() != nil {
		return p.outcomes, fmt.Errorf("stopped early, with %d runs settled: %w", len(p.outcomes), context.Cause(ctx))
	}
	return p.outcomes, p.broken
}

// planting has the outcomes of the batches so far.
type planting struct {
	dir   string // has a directory for each batch
	shown *progress
	file  *os.File // the outcomes

	mu       sync.Mutex
	outcomes []selftest.Outcome
	broken   error // why the file of outcomes is incomplete
}

// outcomesHead is the first line of the file of outcomes.
type outcomesHead struct {
	Holdfast string `json:"holdfast"` // its version
}

func (p *planting) load(dir string) error {
	f, err := os.Open(filepath.Join(dir, outcomesFile))
	if err != nil {
		return usageError("%s has no selftest to resume: %w", dir, err)
	}
	defer f.Close()
	lines := json.NewDecoder(bufio.NewReader(f))
	var head outcomesHead
	if err := lines.Decode(&head); err != nil {
		return usageError("%s cannot be read: %w; start again with --out", f.Name(), err)
	}
	if head.Holdfast != holdfastVersion() {
		return usageError("the selftest in %s was run by holdfast %s, and this is %s: start again with --out", dir, head.Holdfast, holdfastVersion())
	}
	for {
		var o selftest.Outcome
		switch err := lines.Decode(&o); {
		case err == nil:
			p.outcomes = append(selftest.Without(p.outcomes, o.Unit), o)
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF): // it was killed
			return nil
		default:
			return usageError("%s cannot be read: %w; start again with --out", f.Name(), err)
		}
	}
}

// open creates the file of outcomes with those known so far. It replaces the earlier file, whose
// last line may be truncated.
func (p *planting) open() (err error) {
	if err := os.MkdirAll(p.dir, 0o755); err != nil {
		return fmt.Errorf("failed to make the directory of a selftest: %w; name another one with --out", err)
	}
	path := filepath.Join(p.dir, outcomesFile)
	if p.file, err = os.Create(path + ".new"); err == nil {
		lines := json.NewEncoder(p.file)
		err = lines.Encode(outcomesHead{holdfastVersion()})
		for _, o := range p.outcomes {
			err = errors.Join(err, lines.Encode(o))
		}
		err = errors.Join(err, os.Rename(path+".new", path))
	}
	if err != nil {
		return fmt.Errorf("failed to make the file of outcomes: %w; name another directory with --out", err)
	}
	return nil
}

// settled records an outcome, in place of an earlier one of the same unit.
func (p *planting) settled(o selftest.Outcome) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.outcomes = append(selftest.Without(p.outcomes, o.Unit), o)
	if err := json.NewEncoder(p.file).Encode(o); err != nil {
		p.broken = fmt.Errorf("failed to save an outcome: %w", err)
	}
}

// tooSlow reports whether a machine is too slow for its clusters: most units were unclear, so
// running each on it and once more alone takes longer than running all of them alone.
func tooSlow(settled, unclear int) bool { return settled >= 8 && 2*unclear > settled }

// carryOut runs batches, up to parallel at a time, until ctx is done. If there are several at a time
// and the machine is too slow for that, it calls stop, which ends ctx.
func (p *planting) carryOut(ctx context.Context, work []selftest.Batch, parallel int, stop func()) {
	total := 0
	for _, b := range work {
		total += len(b.Units)
	}
	if total == 0 {
		return
	}
	p.shown.Line("%s on %s, %d at a time", reports.Plural(total, "run"), reports.Plural(len(work), "cluster"), parallel)
	var (
		mu            sync.Mutex
		done, unclear int
		all           sync.WaitGroup
	)
	free := make(chan struct{}, parallel)
	for _, b := range work {
		free <- struct{}{}
		if ctx.Err() != nil {
			break
		}
		all.Go(func() {
			defer func() { <-free }()
			settled := 0
			add := func(o selftest.Outcome) {
				mu.Lock()
				defer mu.Unlock()
				settled++
				done++
				p.settled(o)
				p.shown.Line("%5s  [%d/%d] %s: %s", p.shown.Elapsed(), done, total, o.Unit, o)
				if o.Unclear {
					unclear++
				}
				if parallel > 1 && ctx.Err() == nil && tooSlow(done, unclear) {
					p.shown.Line("%5s  %d of %d runs were inconclusive or did not catch their violation: the machine is too slow for %d clusters at a time, and the rest runs on one", p.shown.Elapsed(), unclear, done, parallel)
					stop()
				}
			}
			dir, err := os.MkdirTemp(p.dir, b.Cluster+"-")
			if err == nil {
				err = b.In(ctx, dir, func(line string) { p.shown.Status("%5s  %s", p.shown.Elapsed(), line) }, add)
			}
			if err == nil || ctx.Err() != nil {
				return
			}
			// The other clusters continue; the units left on this one stay open.
			for _, u := range b.Units[settled:] {
				add(selftest.Outcome{Unit: u, Problem: err.Error(), Unclear: true})
			}
		})
	}
	all.Wait()
}
