package run

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/holdfast-ha/holdfast/clusters"
	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/engine"
	"github.com/holdfast-ha/holdfast/framework/fault"
	"github.com/holdfast-ha/holdfast/framework/judge"
	"github.com/holdfast-ha/holdfast/framework/observe"
	"github.com/holdfast-ha/holdfast/framework/record"
	"github.com/holdfast-ha/holdfast/suites/internal/worker"
)

// workerName is the first argument of a worker.
const workerName = "run-worker"

// Program is what a program adds to its runs.
type Program struct {
	Providers []clusters.Provider
	// Faults and Judges are those that scenarios may name in addition to the built-in ones.
	Faults []*fault.Fault
	Judges []judge.Judge
}

// Main turns this process into a worker if a Host started it as one; it does not return in a
// worker. Call it first in main or TestMain, after the Main of each provider.
func (p Program) Main() {
	worker.Main(workerName, func(args []string) (worker.Handler, error) {
		if len(args) != 2 {
			return nil, fmt.Errorf("a worker expects a results directory and a part of its plan, not %q", args)
		}
		return p.newWork(args[0], args[1])
	})
}

// task is a request to a worker: to run a scenario or, without a scenario, to create a cluster
// unless it has one.
type task struct {
	Scenario string `json:"scenario,omitempty"`
}

// Settled is what came of a scenario.
type Settled struct {
	Scenario string         `json:"scenario"`
	Results  []judge.Result `json:"results"`
	// Judging is how long it took to judge the record, in nanoseconds.
	Judging time.Duration `json:"judging"`
	// Problem is why the record is not that of the whole experiment; empty if it is.
	Problem string `json:"problem,omitempty"`
}

// created is the answer to a request for a cluster.
type created struct {
	Took time.Duration `json:"took"` // 0 if it already existed
	// Refused is why the cluster must not be broken, in which case none is given; see clusters.ErrUnsafe.
	Refused string `json:"refused,omitempty"`
}

// work is the state of a worker.
type work struct {
	program  Program
	provider clusters.Provider
	plan     *Plan
	part     Part
	dir      string
	cluster  framework.Cluster           // nil if there is none
	end      func(context.Context) error // deletes the cluster
	stopped  error                       // why no further scenario runs
}

func (program Program) newWork(dir, part string) (*work, error) {
	p, err := Load(dir)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(p.Parts, func(one Part) bool { return one.Name == part })
	if i < 0 {
		return nil, fmt.Errorf("the plan of the run has no part %q", part)
	}
	j := slices.IndexFunc(program.Providers, func(one clusters.Provider) bool { return one.Name() == p.Provider })
	if j < 0 {
		return nil, fmt.Errorf("this program has no provider %q", p.Provider)
	}
	return &work{program: program, provider: program.Providers[j], plan: p, part: p.Parts[i], dir: dir}, nil
}

// Handle implements worker.Handler. Events are lines of progress.
func (w *work) Handle(ctx context.Context, request json.RawMessage, say func(any)) (any, error) {
	var t task
	if err := json.Unmarshal(request, &t); err != nil {
		return nil, fmt.Errorf("failed to decode a task: %w", err)
	}
	progress := func(line string) {
		fmt.Println(time.Now().Format("15:04:05.000"), line) // to the worker's log
		say(line)
	}
	if t.Scenario == "" {
		return w.create(ctx, progress)
	}
	return w.settle(ctx, t.Scenario, progress)
}

// Close implements worker.Handler.
func (w *work) Close(ctx context.Context) error {
	if w.cluster == nil {
		return nil
	}
	w.cluster = nil
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), endLimit)
	defer cancel()
	return w.end(ctx)
}

// endLimit is how long deleting or releasing a cluster may take in all.
const endLimit = 5 * time.Minute

// create creates the cluster of the part unless it exists. It refuses another scenario on a
// cluster that was taken over if the last one did not leave it in its steady state, or if its
// owner does not permit faults any more.
func (w *work) create(ctx context.Context, progress func(string)) (created, error) {
	switch {
	case w.stopped != nil:
		return created{}, w.stopped
	case w.cluster != nil && w.plan.Attach:
		return created{}, stillPermitted(ctx, w.cluster)
	case w.cluster != nil:
		return created{}, nil
	}
	began := time.Now()
	if w.plan.Attach {
		taken, err := takeOver(ctx, w.provider, w.part.Cluster, w.dir, w.plan.Harmless(), progress)
		if errors.Is(err, clusters.ErrUnsafe) {
			return created{Refused: err.Error()}, nil
		}
		if err != nil {
			return created{}, err
		}
		w.cluster, w.end = taken.cluster, taken.Close
	} else {
		made, err := w.make(ctx, progress)
		if err != nil {
			return created{}, err
		}
		w.cluster, w.end = made, made.Close
	}
	if waited := observe.Quiet(ctx, quietLimit(w.provider)); waited > 2*time.Second {
		progress(fmt.Sprintf("waited %s until the machine was quiet", waited.Round(time.Second)))
	}
	return created{Took: time.Since(began)}, nil
}

func (w *work) make(ctx context.Context, progress func(string)) (clusters.Made, error) {
	if err := worker.Unchanged(); err != nil { // the nodes are processes of this program, too
		return nil, err
	}
	logs, err := newLogs(w.dir, w.part.Name)
	if err != nil {
		return nil, err
	}
	return w.provider.Create(ctx, w.part.Cluster, clusters.Options{Dir: w.dir, LogDir: logs,
		DataDir: filepath.Join(w.dir, dataPrefix+filepath.Base(logs)), Seed: w.plan.Seed, Progress: progress})
}

// settle runs a scenario and judges its record.
func (w *work) settle(ctx context.Context, name string, progress func(string)) (*Settled, error) {
	s, err := w.plan.Scenario(name)
	if err != nil {
		return nil, err
	}
	if w.cluster == nil {
		return nil, errors.New("the worker has no cluster")
	}
	settled := &Settled{Scenario: name}
	dir := record.Dir(w.dir, name)
	e := s.Experiment()
	e.Traffic.Intensity = cmp.Or(e.Traffic.Intensity, w.plan.Intensity)
	problem := engine.Run(ctx, w.cluster, e, engine.Options{Dir: dir, Run: w.plan.Run, Harness: w.plan.Harness,
		Provider: w.plan.Provider, Seed: w.plan.Seed, Faults: w.program.Faults, Judges: w.program.Judges, Existing: w.plan.Attach, Progress: func(line string) { progress("  " + line) }})
	if problem != nil {
		settled.Problem = problem.Error()
	}
	began := time.Now()
	run, err := record.Read(dir)
	if err == nil {
		settled.Results = judge.Evaluate(run, w.program.Judges...)
		settled.Judging = time.Since(began)
	}
	harmless := w.plan.Attach && w.plan.Harmless() // it is left as it was found, healthy or not
	if err != nil || !harmless && !LeftAsFound(run, w.cluster) {
		end := "deleted"
		if w.plan.Attach {
			end = "released"
		}
		progress(name + " did not leave the cluster in its steady state: the cluster is " + end)
		cluster, ending := w.cluster.Name(), w.Close(context.WithoutCancel(ctx))
		if err = errors.Join(err, ending); w.plan.Attach {
			healed := "everything was healed and "
			if ending != nil {
				healed = ""
			}
			w.stopped = fmt.Errorf("%s did not leave cluster %s in its steady state, so %sthe run stopped: find out what is wrong; once the cluster is healthy, run the rest (holdfast run: continue with --resume)", name, cluster, healed)
		}
	}
	if run == nil {
		err = errors.Join(problem, err)
	}
	return settled, err
}

// LeftAsFound reports whether a scenario left a cluster as it found it, so that others may
// follow: according to its record the steady state held last and every fault is proven to be
// healed, and the cluster has the same nodes.
func LeftAsFound(run *record.Run, c framework.Cluster) bool {
	steady := false
	for _, s := range run.Steadies {
		switch {
		case s.V.Phase == "after":
			steady = s.V.OK
		case s.V.Phase == record.SteadyPart && !s.V.OK:
			return false
		}
	}
	if !steady {
		return false
	}
	open := map[string]bool{} // injections that may not be completely healed
	for _, f := range run.Faults {
		open[f.V.ID] = f.V.Missing == "" && !f.V.Untouched && (f.V.Phase != record.FaultHealed || !f.V.Proven)
	}
	if slices.Contains(slices.Collect(maps.Values(open)), true) {
		return false
	}
	found := framework.Names(run.Meta.Nodes, func(n record.Node) string { return n.Name })
	has := framework.NodeNames(c.Nodes())
	slices.Sort(found)
	slices.Sort(has)
	return slices.Equal(found, has)
}

// quietLimit is how long to wait until the machine is quiet after a provider created a cluster.
func quietLimit(p clusters.Provider) time.Duration {
	if s, ok := p.(clusters.Settler); ok {
		return s.Settling()
	}
	return 5 * time.Second
}

// dataPrefix is the prefix of directories for data on disk, in the results directory.
const dataPrefix = "data-"

// newLogs creates a directory for the logs of a part's cluster: logs/PART, or logs/PART.2 and so
// on for replacements of a lost cluster.
func newLogs(dir, part string) (string, error) {
	for n := 1; ; n++ {
		logs := filepath.Join(dir, "logs", part)
		if n > 1 {
			logs += fmt.Sprintf(".%d", n)
		}
		if err := os.Mkdir(logs, 0o755); !errors.Is(err, fs.ErrExist) {
			return logs, err
		}
	}
}
