package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-ha/holdfast/clusters"
	"github.com/holdfast-ha/holdfast/framework/judge"
	"github.com/holdfast-ha/holdfast/suites/run"
)

// board shows the progress of a run: what runs on which cluster, what is left, and when it is
// expected to end.
type board struct {
	shown    *progress
	parallel int
	provider string

	mu          sync.Mutex
	pace        pace
	parts       []*shownPart // as in the plan
	total, done int          // scenarios
	begun       int
	stop        func() // stops the live line
}

// shownPart is a part of the plan on the board.
type shownPart struct {
	name     string
	creation time.Duration   // about how long creating its cluster takes
	left     []shownScenario // not yet over; the first one runs if since is set
	since    time.Time       // when the first one started
	started  bool            // the part has started
	ended    bool
	number   int // of the scenario that runs
}

type shownScenario struct {
	name     string
	expected time.Duration
}

func newBoard(p *run.Plan, shown *progress) (*board, error) {
	b := &board{shown: shown, parallel: p.Parallel, provider: p.Provider, pace: rememberedPace(p.Provider)}
	for _, one := range p.Parts {
		settings, err := clusters.Settings(one.Cluster)
		if err != nil {
			return nil, err
		}
		onBoard := &shownPart{name: one.Name, creation: one.Expected}
		for _, name := range one.Scenarios {
			s, err := p.Scenario(name)
			if err != nil {
				return nil, err
			}
			expected := s.Expected(settings)
			onBoard.left = append(onBoard.left, shownScenario{name, expected})
			onBoard.creation -= expected
		}
		b.total += len(onBoard.left)
		b.parts = append(b.parts, onBoard)
	}
	b.stop = b.watch()
	return b, nil
}

// Close implements run.Board.
func (b *board) Close() {
	b.stop()
	b.pace.remember(b.provider)
}

// part finds a part and marks it as started. The caller holds the lock.
func (b *board) part(name string) *shownPart {
	i := slices.IndexFunc(b.parts, func(one *shownPart) bool { return one.name == name })
	b.parts[i].started = true
	return b.parts[i]
}

// Says implements run.Board.
func (b *board) Says(part, line string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.part(part)
	b.line(part, "%s", line)
}

func (b *board) line(part, format string, args ...any) {
	b.shown.Line("%5s  %s  %s", b.shown.Elapsed(), part, fmt.Sprintf(format, args...))
}

// Begins implements run.Board. An earlier scenario on the same cluster that was not settled is
// over.
func (b *board) Begins(part, scenario string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	one := b.part(part)
	b.over(one, slices.IndexFunc(one.left, func(s shownScenario) bool { return s.name == scenario }))
	if len(one.left) == 0 {
		return
	}
	b.begun++
	one.number, one.since = b.begun, time.Now()
	b.line(part, "[%d/%d] %s starts, expected to take %s; %s", one.number, b.total, scenario, b.pace.of(one.left[0].expected).Round(time.Second), b.outlook())
}

// Settled implements run.Board.
func (b *board) Settled(part string, s run.Settled) {
	b.mu.Lock()
	defer b.mu.Unlock()
	one := b.part(part)
	if len(one.left) == 0 || one.left[0].name != s.Scenario {
		return
	}
	for _, r := range s.Results {
		if noteworthy(r) {
			b.line(part, "  %s: %s (%s)", r.Requirement, r.Verdict, cmp.Or(r.Measured, r.Sentence))
		}
	}
	if !one.since.IsZero() {
		b.pace.add(time.Since(one.since), one.left[0].expected)
	}
	b.over(one, 1)
	b.line(part, "[%d/%d] %s: %s; %s", one.number, b.total, s.Scenario, verdicts(s.Results), b.outlook())
}

// over removes the first n scenarios of a part from the board.
func (b *board) over(one *shownPart, n int) {
	n = max(n, 0)
	b.done += n
	one.left, one.since = one.left[n:], time.Time{}
}

// Ended implements run.Board.
func (b *board) Ended(part string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	one := b.part(part)
	b.over(one, len(one.left))
	one.ended = true
}

// Fewer implements run.Board.
func (b *board) Fewer(parallel int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	before := b.parallel
	b.parallel = parallel
	b.shown.Line("%5s  the machine is too slow for %d clusters at a time; the rest runs on %d at a time; %s", b.shown.Elapsed(), before, parallel, b.outlook())
}

// outlook says how much is left, and when it will be done.
func (b *board) outlook() string {
	ends := b.ends(time.Now())
	if b.done == b.total {
		return "nothing left"
	}
	return fmt.Sprintf("%d left, until about %s (in %s)", b.total-b.done, time.Now().Add(ends).Format("15:04:05"), ends.Round(time.Second))
}

// ends returns the expected time from now until all is done.
func (b *board) ends(now time.Time) time.Duration {
	var parts []run.Part
	for _, one := range b.parts {
		if one.ended {
			continue
		}
		p := run.Part{}
		for _, s := range one.left {
			p.Expected += b.pace.of(s.expected)
		}
		if len(one.left) > 0 && !one.since.IsZero() {
			p.Expected -= min(now.Sub(one.since), b.pace.of(one.left[0].expected))
		} else if !one.started {
			p.Expected += one.creation
		}
		parts = append(parts, p)
	}
	return slices.Max(append(run.Ends(parts, b.parallel), 0))
}

// watch keeps a live line up to date on a terminal, until stop is called.
func (b *board) watch() (stop func()) {
	if b.shown.width == 0 {
		return func() {}
	}
	ticker := time.NewTicker(time.Second)
	over := make(chan struct{})
	var showing sync.WaitGroup
	showing.Go(func() {
		for {
			select {
			case now := <-ticker.C:
				b.shown.Status("%s", b.status(now))
			case <-over:
				return
			}
		}
	})
	return func() {
		ticker.Stop()
		close(over)
		showing.Wait()
	}
}

func (b *board) status(now time.Time) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	words := []string{fmt.Sprintf("%d of %d done", b.done, b.total)}
	running := 0
	for _, one := range b.parts {
		if !one.since.IsZero() {
			running++
		}
	}
	for _, one := range b.parts {
		switch {
		case !one.started || one.ended:
		case one.since.IsZero() && running >= b.parallel:
			words = append(words, one.name+" waits")
		case one.since.IsZero():
			words = append(words, one.name+" is being prepared")
		default:
			words = append(words, fmt.Sprintf("%s %s/%s", one.left[0].name, now.Sub(one.since).Round(time.Second), b.pace.of(one.left[0].expected).Round(time.Second)))
		}
	}
	return strings.Join(append(words, "done in "+cmp.Or(b.ends(now), time.Second).Round(time.Second).String()), ", ")
}

// noteworthy reports whether a result is on the scenario's own requirements, or is one on an
// invariant or the harness that did not pass.
func noteworthy(r judge.Result) bool {
	return run.Own(r) || r.Verdict != judge.Pass && r.Verdict != judge.NotApplicable
}

// verdicts counts the noteworthy results, except those on the harness: "2 pass, 1 inconclusive".
func verdicts(results []judge.Result) string {
	var words []string
	for _, v := range []judge.Verdict{judge.Fail, judge.Inconclusive, judge.Pass, judge.NotApplicable} {
		n := 0
		for _, r := range results {
			if r.Verdict == v && r.Judge != "harness" && noteworthy(r) {
				n++
			}
		}
		if n > 0 {
			words = append(words, fmt.Sprintf("%d %s", n, v))
		}
	}
	return strings.Join(words, ", ")
}
