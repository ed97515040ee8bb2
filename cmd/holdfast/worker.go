package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-ha/holdfast/clusters"
	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/judge"
	"github.com/holdfast-ha/holdfast/framework/observe"
	"github.com/holdfast-ha/holdfast/suites"
)

// newWorkerCommand is what `holdfast run` re-executes itself as, in a sandbox.
func newWorkerCommand() *cobra.Command {
	return &cobra.Command{
		Use:    workerCommand + " DIR PART SCENARIO...",
		Short:  "Run scenarios of a part of the plan in a results directory (started by holdfast run)",
		Hidden: true,
		Args:   cobra.MinimumNArgs(3),
		RunE: func(_ *cobra.Command, args []string) error {
			return work(args[0], args[1], args[2:])
		},
	}
}

func work(dir, name string, todo []string) error {
	told, err := progressOut()
	if err != nil {
		return err
	}
	p, err := loadPlan(dir)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(p.Parts, func(one part) bool { return one.Name == name })
	if i < 0 {
		return fmt.Errorf("the plan of the run has no part %q", name)
	}
	provider, err := providerNamed(p.Provider)
	if err != nil {
		return err
	}
	out := json.NewEncoder(told)
	var mu sync.Mutex
	say := func(m workerMessage) {
		mu.Lock()
		defer mu.Unlock()
		_ = out.Encode(m) // who would hear it is gone, and this process with it
	}
	progress := func(line string) { say(workerMessage{Progress: line}) }
	var end func(context.Context) error // of the cluster
	var broken error                    // why there was no cluster
	env := &suites.Env{
		Cluster: func(ctx context.Context) (framework.Cluster, error) {
			began := time.Now()
			var cluster clusters.Made
			if p.Attach {
				var taken *takenOver
				if taken, broken = takeOver(ctx, provider, p.Parts[i].Cluster, progress); broken == nil {
					cluster, end = taken.cluster, taken.Close
				}
			} else if cluster, broken = create(ctx, provider, p, i, dir, progress); broken == nil {
				end = cluster.Close
			}
			if broken == nil {
				if waited := observe.Calm(ctx, calmLimit(provider)); waited > 2*time.Second {
					progress(fmt.Sprintf("waited %s for the machine to calm down", waited.Round(time.Second)))
				}
			}
			say(workerMessage{Made: time.Since(began)})
			return cluster, broken
		},
		Close: func(ctx context.Context) error { return end(ctx) },
		Dir:   dir, Run: p.Run, Harness: p.Harness, Provider: p.Provider, Seed: p.Seed,
		Progress: progress,
		Begins:   func(scenario string) { say(workerMessage{Begins: scenario}) },
		Settled: func(scenario string, results []judge.Result, took time.Duration) {
			for _, r := range results {
				if noteworthy(r) {
					progress(fmt.Sprintf("  %s: %s (%s)", r.Requirement, r.Verdict, cmp.Or(r.Measured, r.Sentence)))
				}
			}
			say(workerMessage{Settled: &settled{Scenario: scenario, Verdicts: verdicts(results), Judging: took}})
		},
	}
	for _, name := range todo {
		s, err := p.scenario(name)
		if err != nil {
			return err
		}
		env.Scenarios = append(env.Scenarios, s)
	}
	switch passed := suites.Run(env); {
	case broken != nil:
		say(workerMessage{Broken: broken.Error()})
		return broken
	case !passed:
		return exitWith(exitFail, nil)
	}
	return nil
}

// create makes the cluster of a part of the plan.
func create(ctx context.Context, provider clusters.Provider, p *plan, i int, dir string, progress func(string)) (clusters.Made, error) {
	logs, err := newLogs(dir, p.Parts[i].Name)
	if err != nil {
		return nil, err
	}
	return provider.Create(ctx, p.Parts[i].Cluster, clusters.Options{Dir: dir, LogDir: logs,
		DataDir: filepath.Join(dir, dataPrefix+filepath.Base(logs)), Seed: p.Seed, Progress: progress})
}

// calmLimit is how long a new cluster of a provider is given until the machine is calm.
func calmLimit(p clusters.Provider) time.Duration {
	if s, ok := p.(clusters.Settler); ok {
		return s.Settling()
	}
	return 5 * time.Second
}

// dataPrefix begins the names of directories for data on disk, in the results directory.
const dataPrefix = "data-"

// newLogs makes a directory for the logs of a part's cluster: logs/PART, or logs/PART.2
// and so on for those that it gets when one was given up.
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

// noteworthy results are those on requirements, and those on the checks of every run
// that did not pass.
func noteworthy(r judge.Result) bool {
	return !strings.HasPrefix(r.Requirement, "RUN/") || r.Verdict != judge.Pass && r.Verdict != judge.NotApplicable
}

// verdicts counts those on requirements: "2 pass, 1 inconclusive".
func verdicts(results []judge.Result) string {
	var words []string
	for _, v := range []judge.Verdict{judge.Fail, judge.Inconclusive, judge.Pass, judge.NotApplicable} {
		n := 0
		for _, r := range results {
			if r.Verdict == v && !strings.HasPrefix(r.Requirement, "RUN/") {
				n++
			}
		}
		if n > 0 {
			words = append(words, fmt.Sprintf("%d %s", n, v))
		}
	}
	return strings.Join(words, ", ")
}
