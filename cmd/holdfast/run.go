package main

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/holdfast-ha/holdfast/clusters"
	"github.com/holdfast-ha/holdfast/framework/workload"
	"github.com/holdfast-ha/holdfast/scenarios"
	"github.com/holdfast-ha/holdfast/suites/run"
)

func newRunCommand() *cobra.Command {
	var (
		f         clusterFlags
		profile   string
		globs     []string
		files     []string
		seed      uint64
		intensity int
		out       string
		dryRun    bool
		skip      []string
		timeout   time.Duration
		parallel  int
		attach    string
		victims   string
	)
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Put a cluster under faults and give a verdict on each requirement",
		Long: `Make clusters, run scenarios on them, and write a report with a verdict on each
requirement that they settle. The run deletes its clusters and stops everything that it
started, however it ends.

Scenarios share clusters, unless one asks for a different setup. Up
to --parallel clusters run side by side, each with about 1.6 GiB for three nodes
and a core while it has traffic. If that overloads the machine and costs a verdict, the
scenario is repeated alone at the end.

A cluster that you describe with --cluster, --lb or --disk is tested as described.
Otherwise scenarios may set other arguments, balancers or disks; the evidence lists what
they set.

With --attach the run takes over an existing cluster and releases it at the end: it
removes its agents and deletes what its traffic created. Scenarios that need a different
cluster, or that add or remove nodes, do not apply. The faults interrupt the cluster's
service.

Exit codes: 0 all pass, 1 a requirement failed, 2 bad input, 3 inconclusive.`,
		Example: `  holdfast run                             # profile core
  holdfast run --profile smoke --out results/smoke
  holdfast run --scenario 'etcd-*' --nodes 5
  holdfast run -f mine.yaml --cluster cluster.yaml
  holdfast run --provider kind --attach theirs
  holdfast run --profile core --dry-run`,
		Args: cobra.NoArgs,
	}
	f.add(cmd, "cluster", "")
	flags := cmd.Flags()
	flags.StringVar(&profile, "profile", "core", "which scenarios: "+strings.Join(scenarios.Profiles, ", "))
	flags.StringSliceVar(&globs, "scenario", nil, "scenarios by name, instead of a profile; * and ? are wild")
	flags.StringSliceVar(&skip, "skip", nil, "scenarios to leave out, by name; * and ? are wild")
	flags.DurationVar(&timeout, "timeout", 0, "interrupt the run after this time, with what is settled until then (default none)")
	flags.StringSliceVarP(&files, "file", "f", nil, "scenario files of your own, instead of a profile; - is standard input")
	flags.Uint64Var(&seed, "seed", 0, "seed of traffic and faults (default a random one, which is printed)")
	flags.IntVar(&intensity, "intensity", 0, "how many times as much traffic as scenarios have by default (default 1, 3 for the profile full)")
	flags.StringVar(&out, "out", "", "results directory; it must be new or empty (default results/DATE-TIME)")
	flags.IntVar(&parallel, "parallel", 0, "how many clusters at a time (default what cores and memory allow)")
	flags.StringVar(&attach, "attach", "", "name of an existing cluster to take over for the run (provider kind only)")
	flags.BoolVar(&dryRun, "dry-run", false, "print what would be done, and do nothing")
	flags.StringVar(&victims, "victims", "", "one, or each: repeat the scenarios that could hit another node as well, so that each node is hit in turn (default one, each for the profile full)")
	output := addOutputFlag(cmd)

	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		ctx := cmd.Context()
		if flags.Changed("timeout") {
			if timeout <= 0 {
				return usageError("--timeout %s: want a time above zero, such as 30m", timeout)
			}
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, timeout)
			defer cancel()
		}
		provider, err := providerNamed(f.provider)
		if err != nil {
			return err
		}
		spec, err := f.clusterOrAttach(cmd, provider, attach)
		if err != nil {
			return err
		}
		if why := provider.Lacks(spec); why != "" && attach == "" {
			return usageError("--provider %s: %s", f.provider, why)
		}
		chosen, err := run.Choose(profile, globs, files)
		if err != nil {
			return exitWith(exitUsage, err)
		}
		if chosen, err = run.Skip(chosen, skip); err != nil {
			return exitWith(exitUsage, err)
		}
		chosen = run.Here(provider, spec, chosen)
		switch {
		case attach != "":
			chosen = run.AsItIs(spec, chosen)
		case f.described():
			chosen = run.AsDescribed(spec, chosen)
		}
		if len(globs)+len(files) > 0 {
			profile = ""
		}
		switch {
		case victims == "each", victims == "" && profile == "full":
			chosen = run.InTurn(spec, chosen, 1, true)
		case victims != "one" && victims != "":
			return usageError("--victims %q: want one or each", victims)
		}
		if !flags.Changed("seed") {
			seed = randomSeed()
		}
		p := run.New(provider, spec, chosen, seed, holdfastVersion())
		p.Profile, p.Attach = profile, attach != ""
		if !flags.Changed("intensity") {
			intensity = run.Intensity(profile)
		} else if intensity < 1 || intensity > workload.MaxIntensity {
			return usageError("--intensity %d: want 1 to %d", intensity, workload.MaxIntensity)
		}
		p.Intensity = intensity
		switch {
		case attach != "" && flags.Changed("parallel") && parallel != 1:
			return usageError("--parallel %d: with --attach there is one cluster", parallel)
		case attach != "":
			parallel = 1
		case !flags.Changed("parallel"):
			parallel = run.Parallel(provider, spec)
		case parallel < 1:
			return usageError("--parallel %d: at least 1", parallel)
		}
		for _, note := range run.Merged(chosen) {
			fmt.Fprintf(cmd.ErrOrStderr(), "holdfast: %s\n", note)
		}
		if err := p.Divide(provider, parallel); err != nil {
			return exitWith(exitUsage, err)
		}
		if dryRun {
			return printPlan(cmd, p, *output)
		}
		if out == "" {
			out = filepath.Join("results", p.Started.Format("20060102-150405"))
		}
		if err := checkResultsDir(out); err != nil {
			return err
		}
		shown := newProgress(cmd.ErrOrStderr())
		var all []*clusters.Cluster
		for _, one := range p.Parts {
			all = append(all, one.Cluster)
		}
		if !p.Attach {
			if err := prepare(ctx, provider, shown, all...); err != nil {
				return err
			}
		}
		here := rememberedPace(p.Provider)
		shown.Line("run %s: %s on %s of %d nodes, %d at a time, Kubernetes %s, seed %d; expected to take %s", p.Run, plural(len(chosen), "scenario"),
			plural(len(p.Parts), "cluster"), len(spec.Spec.Nodes), p.Parallel, spec.Spec.KubernetesVersion, seed, here.of(p.Expected).Round(time.Second))
		v, err := p.CarryOut(ctx, provider, out, run.Show{Line: shown.Line,
			Board: func(p *run.Plan) (run.Board, error) { return newBoard(p, shown) }})
		if shown.Done(); err != nil {
			return err
		}
		if note := early(p, v, ctx.Err()); note != "" {
			fmt.Fprintf(cmd.ErrOrStderr(), "holdfast: %s\n", note)
		}
		return announce(cmd, v, *output, slices.DeleteFunc([]string{v.NotJudged(), reportIn(out)}, empty)...)
	}
	return cmd
}

// early says why verdicts are missing, if so: a run that was interrupted settles less, and
// says nothing of the machine.
func early(p *run.Plan, v *run.Verdicts, interrupted error) string {
	starved := run.Starved(v.Results)
	switch {
	case errors.Is(interrupted, context.DeadlineExceeded):
		return "the time of --timeout is over: faults were healed and clusters deleted; what was settled until then is in the report"
	case interrupted != nil:
		return "interrupted: faults were healed and clusters deleted; what was settled until then is in the report"
	case p.Problem != "":
		return "the run ended early: " + p.Problem
	case len(starved) > 0:
		return fmt.Sprintf("the machine was overloaded during %s, so that what took too long there counts for nothing: run that again, with nothing beside it", strings.Join(starved, ", "))
	}
	return ""
}

// randomSeed returns a seed that a person can type again.
func randomSeed() uint64 {
	var b [4]byte
	_, _ = rand.Read(b[:]) // never fails
	return uint64(binary.LittleEndian.Uint32(b[:]))
}

// checkResultsDir refuses a results directory that holds something.
func checkResultsDir(dir string) error {
	entries, err := os.ReadDir(dir)
	switch {
	case err == nil && len(entries) > 0:
		return usageError("the results directory %s is not empty; name another one with --out", dir)
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return usageError("the results directory cannot be used: %w; name another one with --out", err)
	}
	return nil
}

func isTerminal(w any) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// clusterOrAttach returns the cluster that the flags describe or, where one is named that
// is to be taken over, that one as it is.
func (f *clusterFlags) clusterOrAttach(cmd *cobra.Command, provider clusters.Provider, attach string) (*clusters.Cluster, error) {
	if attach == "" {
		return f.cluster()
	}
	return f.describe(cmd, provider, attach)
}
