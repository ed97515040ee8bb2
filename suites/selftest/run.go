package selftest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-ha/holdfast/clusters"
	"github.com/holdfast-ha/holdfast/clusters/local"
	"github.com/holdfast-ha/holdfast/clusters/local/tamper"
	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/engine"
	"github.com/holdfast-ha/holdfast/framework/fault"
	"github.com/holdfast-ha/holdfast/framework/judge"
	"github.com/holdfast-ha/holdfast/framework/record"
	"github.com/holdfast-ha/holdfast/framework/workload/client"
	suiterun "github.com/holdfast-ha/holdfast/suites/run"
)

// tries is how often a unit runs before an early end or an inconclusive verdict is accepted.
const tries = 3

// stopDelay is the delay between the previous step and stopping the harness: clients then wait
// for what that step broke.
const stopDelay = 300 * time.Millisecond

// Env is the environment of Run.
type Env struct {
	// Dir is where the logs of the cluster and the records go.
	Dir string
	// Harness is the version of holdfast.
	Harness string
	// Progress receives one line per step; nil for no output.
	Progress func(string)
	// Stop stops this process for a duration, from outside its sandbox. If it is nil, plants that
	// need it do not run.
	Stop func(time.Duration) error
}

// Outcome is what came of a unit.
type Outcome struct {
	Unit Unit `json:"unit"`
	// Results are the verdicts on the unit's subjects alone.
	Results []judge.Result `json:"results"`
	// Surplus are requirements that failed as well, and should not have.
	Surplus []judge.Result `json:"surplus,omitempty"`
	// Acted reports how often the proxies tampered.
	Acted int `json:"acted"`
	// Took is the time of the last try, Tries how many there were.
	Took  time.Duration `json:"took"`
	Tries int           `json:"tries"`
	// Problem is why the unit has no verdicts; empty if it has.
	Problem string `json:"problem,omitempty"`
	// Unclear: there are no verdicts, or one is inconclusive that should not be; or what
	// was planted did not come out as it should beside other clusters.
	Unclear bool `json:"unclear,omitempty"`
}

// Run creates the cluster of a batch and runs its units, and calls settled for each when it is
// done. It must be called inside a sandbox (see sandbox.Command).
func Run(ctx context.Context, b Batch, env Env, settled func(Outcome)) error {
	if env.Progress == nil {
		env.Progress = func(string) {}
	}
	kind, ok := kinds()[b.Cluster]
	if !ok {
		return fmt.Errorf("unknown kind of cluster %q", b.Cluster)
	}
	r := &runner{env: env, tries: tries, fresh: b.Cluster == fresh, run: engine.Run, make: func(ctx context.Context) (cluster, error) {
		c, err := local.Create(ctx, kind.spec, local.Options{Options: clusters.Options{Dir: env.Dir}, Tamper: kind.tamper})
		if err != nil {
			return nil, err
		}
		return c, nil
	}}
	if b.Once {
		r.tries, r.shared = 1, true
	}
	defer r.close(ctx)
	for i, u := range b.Units {
		env.Progress(fmt.Sprintf("%s: %s (%d of %d)", b.Cluster, u, i+1, len(b.Units)))
		o := r.unit(ctx, u)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		settled(o)
	}
	return nil
}

// firsts run and are recorded at the first step of scenarios that need something for which no
// action exists.
var firsts = map[string]func(context.Context, framework.Cluster, *record.Writer) error{
	"etcd-watches":                        etcdWatches,
	"namespaces":                          makeNamespaces,
	"catalogue/apiservers-killed-in-turn": electAutoscalers,
}

// cluster is what units run on.
type cluster interface {
	framework.Cluster
	Tamper(node string) (*tamper.Client, error)
	Close(context.Context) error
}

type runner struct {
	env     Env
	tries   int
	fresh   bool // each run has its own cluster
	shared  bool // other clusters share the machine
	make    func(context.Context) (cluster, error)
	run     func(context.Context, framework.Cluster, engine.Experiment, engine.Options) error
	cluster cluster // nil before the first run, and after one that left it changed
	runs    int
}

func (r *runner) close(ctx context.Context) {
	if r.cluster != nil {
		r.cluster.Close(context.WithoutCancel(ctx))
		r.cluster = nil
	}
}

// unit runs a unit, and repeats it if a verdict is inconclusive and should not be.
func (r *runner) unit(ctx context.Context, u Unit) Outcome {
	o := Outcome{Unit: u, Unclear: true}
	p := Plant{Scenario: u.Scenario}
	if i := slices.IndexFunc(Plants(), func(p Plant) bool { return p.Name == u.Plant }); i >= 0 {
		p = Plants()[i]
	}
	if p.Stop > 0 && r.env.Stop == nil {
		o.Problem = "the harness cannot be stopped from here"
		return o
	}
	for o.Tries < r.tries {
		o.Tries++
		began := time.Now()
		results, acted, err := r.once(ctx, p)
		o.Took, o.Acted, o.Problem = time.Since(began), acted, ""
		if err != nil {
			o.Problem = err.Error()
			r.env.Progress(fmt.Sprintf("%s: stopped early on try %d of %d: %v", u, o.Tries, r.tries, err))
			if ctx.Err() != nil {
				return o
			}
			continue
		}
		o.Results, o.Surplus = u.results(p, results)
		o.Unclear = unclear(p, o.Results) || r.shared && u.Plant != "" && !o.caught(p)
		if !o.Unclear || ctx.Err() != nil {
			return o
		}
		r.env.Progress(fmt.Sprintf("%s: unclear on try %d of %d", u, o.Tries, r.tries))
	}
	return o
}

// results returns the results that count, and the requirements that failed besides the planted
// one.
func (u Unit) results(p Plant, all []judge.Result) (counted, surplus []judge.Result) {
	known := func(name string) bool {
		return slices.Contains(p.May, name) || slices.ContainsFunc(p.Catches, func(c Catch) bool { return c.subject() == name })
	}
	exact := slices.ContainsFunc(p.Catches, func(c Catch) bool { return c.Requirement != "" })
	for _, r := range all {
		if u.counts(r) {
			counted = append(counted, r)
		}
		if exact && r.Verdict == judge.Fail && !known(r.Requirement) && !known(r.Judge) {
			surplus = append(surplus, r)
		}
	}
	return counted, surplus
}

// unclear reports whether a verdict is inconclusive that should not be. Of several on the same
// subject, as on several faults, one failure is enough.
func unclear(p Plant, results []judge.Result) bool {
	return slices.ContainsFunc(results, func(r judge.Result) bool {
		wanted := slices.ContainsFunc(p.Catches, func(c Catch) bool {
			return c.Of(r) && c.verdict() == judge.Inconclusive
		})
		failed := slices.ContainsFunc(results, func(o judge.Result) bool {
			return o.Verdict == judge.Fail && o.Requirement == r.Requirement && o.Judge == r.Judge
		})
		return r.Verdict == judge.Inconclusive && !wanted && !failed
	})
}

// caught reports whether exactly what the unit's plant violates was found.
func (o Outcome) caught(p Plant) bool {
	if len(o.Surplus) > 0 || len(p.Tamper) > 0 && o.Acted == 0 {
		return false
	}
	return !slices.ContainsFunc(p.Catches, func(c Catch) bool {
		if !slices.Contains(o.Unit.Subjects, c.subject()) {
			return false
		}
		found, _ := verdictOf([]Outcome{o}, c, func(Unit) bool { return true })
		return found == nil || !c.Found(found.Result)
	})
}

// once runs a scenario with a plant active, and judges its record.
func (r *runner) once(ctx context.Context, p Plant) (results []judge.Result, acted int, err error) {
	s, err := scenario(p.Scenario)
	if err != nil {
		return nil, 0, err
	}
	if r.cluster == nil {
		if r.cluster, err = r.make(ctx); err != nil {
			return nil, 0, err
		}
	}
	ctx, end := context.WithCancel(ctx) // of what plants have started
	defer end()
	r.runs++
	dir := filepath.Join(r.env.Dir, "record", fmt.Sprintf("%d-%s", r.runs, Unit{Plant: p.Name, Scenario: p.Scenario}.file()))
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return nil, 0, fmt.Errorf("failed to make a directory for records: %w", err)
	}
	planted := false
	before := func(ctx context.Context, step int, w *record.Writer) error {
		switch {
		case step == p.From:
			if planted = true; p.Stop > 0 {
				client.Pause(ctx, stopDelay)
				if err := r.env.Stop(p.Stop); err != nil {
					return err
				}
			}
			if err := r.tamper(ctx, p.Tamper); err != nil {
				return err
			}
			if p.Do != nil {
				if err := p.Do(ctx, r.cluster); err != nil {
					return err
				}
			}
		case step == p.Until && planted:
			// Count before the rules are removed.
			n, err := r.uproot(ctx)
			if acted += n; err != nil {
				return err
			}
		}
		if first := firsts[p.Scenario]; first != nil && step == 0 {
			return first(ctx, r.cluster, w)
		}
		return nil
	}
	runErr := r.run(ctx, r.cluster, s.Experiment(), engine.Options{Dir: dir, Run: "selftest", Seed: uint64(r.runs),
		Harness: r.env.Harness, Provider: "local", Before: before, Progress: func(line string) { r.env.Progress("  " + line) }})
	n, err := r.uproot(context.WithoutCancel(ctx))
	acted += n
	if err := errors.Join(runErr, err); err != nil {
		r.close(ctx)
		return nil, acted, err
	}
	run, err := record.Read(dir)
	if err != nil {
		r.close(ctx)
		return nil, acted, err
	}
	// The next unit must not find what was planted or broken before, nor nodes that were upgraded
	// or have other certificates.
	if r.fresh || s.Spec.Cluster.Own || !suiterun.LeftAsFound(run, r.cluster) {
		r.close(ctx)
	}
	return judge.Evaluate(run), acted, nil
}

// tamper sets the rules of the proxies.
func (r *runner) tamper(ctx context.Context, all []Tampering) error {
	type place struct {
		node string
		site tamper.Site
	}
	rules := map[place][]tamper.Rule{}
	for _, t := range all {
		if t.At != "" {
			target, err := fault.Resolve(ctx, r.cluster, t.At)
			if err != nil {
				return fmt.Errorf("failed to look for the proxy to tamper with: %w", err)
			}
			at := place{target.Node, t.Site}
			rules[at] = append(rules[at], t.Rule)
			continue
		}
		for i, n := range r.cluster.Nodes() {
			if len(t.Nodes) == 0 || slices.Contains(t.Nodes, i+1) {
				at := place{n.Name(), t.Site}
				rules[at] = append(rules[at], t.Rule)
			}
		}
	}
	for at, rules := range rules {
		client, err := r.cluster.Tamper(at.node)
		if err == nil {
			err = client.Set(ctx, at.site, rules...)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// uproot removes all rules from the proxies, and reports how often they tampered.
func (r *runner) uproot(ctx context.Context) (acted int, err error) {
	for _, n := range r.cluster.Nodes() {
		client, problem := r.cluster.Tamper(n.Name())
		if problem != nil {
			return 0, nil // a cluster without proxies
		}
		for _, site := range []tamper.Site{tamper.Etcd, tamper.API} {
			n, problem := client.Acted(ctx, site)
			acted += n
			err = errors.Join(err, problem, client.Set(ctx, site))
		}
	}
	return acted, err
}

// String describes the outcome in a few words.
func (o Outcome) String() string {
	if o.Problem != "" {
		return o.Problem
	}
	var words []string
	for _, r := range o.Results {
		name := r.Requirement
		if slices.Contains(o.Unit.Subjects, r.Judge) {
			name = r.Judge
		}
		words = append(words, fmt.Sprintf("%s %s", name, r.Verdict))
	}
	return fmt.Sprintf("%s (%s)", strings.Join(words, ", "), o.Took.Round(100*time.Millisecond))
}
