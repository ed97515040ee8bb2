package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/holdfast-ha/holdfast/clusters/local"
	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/judge"
	"github.com/holdfast-ha/holdfast/scenarios"
	"github.com/holdfast-ha/holdfast/suites"
)

// newWorkerCommand is what `holdfast run` re-executes itself as, in a sandbox.
func newWorkerCommand() *cobra.Command {
	return &cobra.Command{
		Use:    workerCommand + " DIR PART",
		Short:  "Run a part of the plan in a results directory (started by holdfast run)",
		Hidden: true,
		Args:   cobra.ExactArgs(2),
		RunE: func(_ *cobra.Command, args []string) error {
			if !local.InSandbox() {
				return usageError("this command is for holdfast run to start, in a sandbox")
			}
			return work(args[0], args[1])
		},
	}
}

func work(dir, name string) error {
	p, err := loadPlan(dir)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(p.Parts, func(one part) bool { return one.Name == name })
	if i < 0 {
		return fmt.Errorf("the plan of the run has no part %q", name)
	}
	var todo []*scenarios.Scenario
	for _, name := range p.Parts[i].Scenarios {
		s, err := p.scenario(name)
		if err != nil {
			return err
		}
		todo = append(todo, s)
	}
	unix.CloseOnExec(progressFD)
	out := os.NewFile(progressFD, "progress")
	progress := func(line string) { fmt.Fprintln(out, line) }
	var cluster *local.Cluster
	var broken error // why there was no cluster
	env := &suites.Env{
		Cluster: func(ctx context.Context) (framework.Cluster, error) {
			cluster, broken = local.Create(ctx, p.Parts[i].Cluster, local.Options{Dir: dir, LogDir: logsDir(dir, name),
				DataDir: filepath.Join(dir, "data-"+name), Seed: p.Seed, Progress: progress})
			return cluster, broken
		},
		Close: func(ctx context.Context) error { return cluster.Close(ctx) },
		Dir:   dir, Run: p.Run, Harness: p.Harness, Provider: p.Provider, Seed: p.Seed,
		Scenarios: todo, Progress: progress,
		Settled: func(_ string, results []judge.Result) {
			for _, r := range results {
				if r.Verdict != judge.Pass || r.Measured != "" {
					progress(fmt.Sprintf("  %s: %s (%s)", r.Requirement, r.Verdict, r.Measured))
				}
			}
		},
	}
	switch passed := suites.Run(env); {
	case broken != nil:
		return broken
	case !passed:
		return exitWith(exitFail, nil)
	}
	return nil
}
