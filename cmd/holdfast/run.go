package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/sys/unix"
	"golang.org/x/term"

	"github.com/holdfast-ha/holdfast/clusters"
	"github.com/holdfast-ha/holdfast/clusters/remote"
	"github.com/holdfast-ha/holdfast/framework/workload"
	"github.com/holdfast-ha/holdfast/reports"
	"github.com/holdfast-ha/holdfast/scenarios"
	"github.com/holdfast-ha/holdfast/suites/run"
)

func newRunCommand() *cobra.Command {
	var (
		f         clusterFlags
		w         wanted
		profile   string
		globs     []string
		files     []string
		intensity int
		out       string
		dryRun    bool
		skip      []string
		timeout   time.Duration
		victims   string
		resume    string
	)
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Inject faults into a cluster and give a verdict on each requirement",
		Long: `Create clusters, run scenarios on them, and write a report with a verdict on each
requirement that they settle. The run deletes its clusters and stops everything that it
started, however it ends.

Scenarios share clusters, unless one asks for a different setup. Up
to --parallel clusters run side by side; each needs about 1.6 GiB for three nodes,
and a core under traffic. If overload costs a verdict, holdfast repeats the scenario alone
at the end of the run, but not on an existing cluster, nor if clusters already ran one at a
time and the machine was overloaded during most scenarios.

A cluster that you describe with --cluster, --lb or --disk is tested as described.
Otherwise scenarios may set other arguments, balancers or disks; the evidence lists what
they set. With --kubernetes or --etcd, scenarios that need another version do not
apply.

With --attach the run takes over an existing cluster and releases it at the end: it
removes its agents and deletes what its traffic created. Scenarios that need a different
cluster, or that leave its nodes changed, do not apply; those that add nodes and remove them
again do. The faults interrupt the cluster's service.

With --inventory the run takes over a cluster that holdfast did not create, with the consent
of its owner (see holdfast inventory and holdfast consent). The profile observe breaks nothing.

With --resume a run that was interrupted or killed continues in its results directory, as it
was planned: scenarios that have a complete record, or in which a requirement had already
failed, are not repeated; the others run.

Exit codes: 0 no requirement failed or is inconclusive, 1 a requirement failed, 2 bad input,
3 inconclusive, or the run had a problem, such as a cluster that it could not release.`,
		Example: `  holdfast run                             # profile core
  holdfast run --profile smoke --out results/smoke
  holdfast run --scenario 'etcd-*' --nodes 5
  holdfast run -f mine.yaml --cluster cluster.yaml
  holdfast run --provider kind --attach theirs
  holdfast run --inventory nodes.yaml --profile observe
  holdfast run --resume results/20261121-080000
  holdfast run --profile core --dry-run`,
		Args: func(cmd *cobra.Command, args []string) error {
			err := arguments()(cmd, args)
			if err != nil {
				err = fmt.Errorf("%w; to run a scenario file: holdfast run -f %s; by name: --scenario NAME", err, args[0])
			}
			return err
		},
	}
	f.add(cmd, "cluster", "")
	flags := cmd.Flags()
	flags.StringVar(&profile, "profile", "core", "profile to run, unless --scenario or --file selects scenarios: "+strings.Join(scenarios.Profiles, ", "))
	flags.StringSliceVar(&globs, "scenario", nil, "scenarios by name instead of a profile, in addition to --file; * and ? are wildcards")
	flags.StringSliceVar(&skip, "skip", nil, "scenarios to leave out, by name; * and ? are wildcards")
	flags.DurationVar(&timeout, "timeout", 0, "interrupt the run after this time, and report what is settled by then (default none)")
	flags.StringSliceVarP(&files, "file", "f", nil, "scenario files of your own instead of a profile, in addition to --scenario; - is standard input")
	flags.Uint64Var(&w.seed, "seed", 0, "seed of traffic and faults (default random; it is printed)")
	flags.IntVar(&intensity, "intensity", 0, "multiple of the scenarios' usual traffic (default 1; 3 for the profile full)")
	flags.StringVar(&out, "out", "", "results directory; it must be new or empty (default results/DATE-TIME)")
	flags.IntVar(&w.parallel, "parallel", 0, "number of clusters at a time (default as many as fit); fewer if the machine turns out to be too slow")
	f.addTakeOver(cmd, &w.attach)
	flags.BoolVar(&dryRun, "dry-run", false, "print what would be done, and do nothing")
	flags.StringVar(&victims, "victims", "", "one, or each: repeat scenarios that could hit another node, so that each node is hit in turn (default each for the profile full and for scenarios about each node, otherwise one)")
	flags.StringVar(&resume, "resume", "", "results `directory` of an interrupted run, to continue it")
	output := addOutputFlag[*reports.Results](cmd)

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
		if resume != "" {
			return resumed(ctx, cmd, resume, dryRun, output)
		}
		chosen, err := run.Choose(profile, globs, files)
		if err == nil {
			chosen, err = run.Skip(chosen, skip)
		}
		if err != nil {
			return exitWith(exitUsage, err)
		}
		if len(globs)+len(files) > 0 {
			profile = ""
		}
		if !slices.Contains([]string{"", "one", "each"}, victims) {
			return usageError("--victims %q: want one or each", victims)
		}
		if !flags.Changed("intensity") {
			intensity = run.Intensity(profile)
		} else if intensity < 1 || intensity > workload.MaxIntensity {
			return usageError("--intensity %d: want 1 to %d", intensity, workload.MaxIntensity)
		}
		w.scenarios = chosen
		repeats := (*scenarios.Scenario).MissesNodes
		if victims == "each" || victims == "" && profile == "full" {
			repeats = (*scenarios.Scenario).Chooses
		}
		if victims != "one" {
			w.turn = func(c *clusters.Cluster, chosen []*scenarios.Scenario) []*scenarios.Scenario {
				return run.InTurn(c, chosen, 1, repeats)
			}
		}
		p, provider, err := f.plan(cmd, w)
		if err != nil {
			return err
		}
		p.Profile, p.Intensity = profile, intensity
		for _, note := range run.Merged(chosen) {
			fmt.Fprintf(cmd.ErrOrStderr(), "holdfast: %s\n", note)
		}
		out = cmp.Or(out, filepath.Join("results", p.Started.Format("20060102-150405")))
		if err := checkResultsDir(out); err != nil {
			return err
		}
		if dryRun {
			return printPlan(cmd, provider, p, output.json())
		}
		v, err := carryOut(ctx, cmd, provider, p, out, false)
		if err != nil {
			return err
		}
		return announce(cmd, v, output, slices.DeleteFunc([]string{v.NotJudged(), reportIn(out)}, empty)...)
	}
	return cmd
}

// wanted is what a plan is made from besides its cluster.
type wanted struct {
	scenarios []*scenarios.Scenario
	// turn repeats scenarios for other victims; nil for none.
	turn     func(*clusters.Cluster, []*scenarios.Scenario) []*scenarios.Scenario
	attach   string // name of a cluster to take over; empty to make clusters
	parallel int    // the flag's value; used only if it was set, and so is seed
	seed     uint64
}

// plan returns the plan of a run on the cluster that the flags describe, or on similar clusters,
// and its provider.
func (f *clusterFlags) plan(cmd *cobra.Command, w wanted) (*run.Plan, clusters.Provider, error) {
	if err := f.takeOver(cmd, &w.attach); err != nil {
		return nil, nil, err
	}
	provider, err := providerNamed(f.provider)
	if err != nil {
		return nil, nil, err
	}
	var spec *clusters.Cluster
	if w.attach != "" {
		spec, err = f.describe(cmd, provider, w.attach)
	} else {
		spec, err = f.cluster()
	}
	if err != nil {
		return nil, nil, err
	}
	if why := provider.Lacks(spec); why != "" && w.attach == "" {
		return nil, nil, usageError("--provider %s: %s", f.provider, why)
	}
	chosen := run.Here(provider, spec, w.scenarios)
	switch {
	case w.attach != "":
		chosen = run.AsItIs(cmd.Context(), provider, spec, chosen)
	case f.described():
		chosen = run.AsDescribed(spec, chosen)
	default:
		chosen = run.OfVersions(spec, f.kubernetes != "", f.etcd != "", chosen)
	}
	if w.turn != nil {
		chosen = w.turn(spec, chosen)
	}
	if !cmd.Flags().Changed("seed") {
		w.seed = randomSeed()
	}
	switch asked := cmd.Flags().Changed("parallel"); {
	case w.attach != "" && asked && w.parallel != 1:
		return nil, nil, usageError("--parallel %d: a run on an existing cluster uses only that one: leave out --parallel", w.parallel)
	case w.attach != "":
		w.parallel = 1
	case !asked:
		w.parallel = run.Parallel(provider, spec)
	case w.parallel < 1:
		return nil, nil, usageError("--parallel %d: want at least 1", w.parallel)
	}
	p := run.New(provider, spec, chosen, w.seed, holdfastVersion())
	p.Attach = w.attach != ""
	if err := p.Divide(provider, w.parallel); err != nil {
		return nil, nil, exitWith(exitUsage, err)
	}
	return p, provider, nil
}

// carryOut prepares and runs a plan, or what is left of it, with results in dir.
func carryOut(ctx context.Context, cmd *cobra.Command, provider clusters.Provider, p *run.Plan, out string, resume bool) (*run.Verdicts, error) {
	shown := newProgress(cmd.ErrOrStderr())
	if owner, ok := provider.(clusters.Permitter); ok && p.Attach {
		if err := owner.Permit(ctx, p.Cluster, p.Effects()...); err != nil {
			if ctx.Err() != nil { // nothing shows that the owner refuses
				return nil, err
			}
			return nil, exitWith(exitUsage, err)
		}
	}
	if !p.Attach {
		if err := prepare(ctx, provider, shown, p.Clusters()...); err != nil {
			return nil, err
		}
	}
	show := run.Show{Line: shown.Line, Board: func(p *run.Plan) (run.Board, error) { return newBoard(p, shown) }}
	var v *run.Verdicts
	var err error
	if resume {
		shown.Line("run %s is resumed: %d of %s are left", p.Run, len(p.Unsettled(out)), units(p))
		v, err = p.Resume(ctx, provider, out, show)
	} else {
		here := rememberedPace(p.Provider)
		shown.Line("run %s: %s on %s of %s, %d at a time, Kubernetes %s, seed %d; expected to take %s", p.Run, units(p),
			reports.Plural(len(p.Parts), "cluster"), reports.Plural(len(p.Cluster.Spec.Nodes), "node"), p.Parallel, p.Cluster.Spec.KubernetesVersion, p.Seed,
			here.of(p.Expected).Round(time.Second))
		v, err = p.CarryOut(ctx, provider, out, show)
	}
	shown.Done()
	if errors.Is(err, run.ErrBusy) || errors.Is(err, run.ErrChanged) {
		return nil, exitWith(exitUsage, err)
	}
	if err != nil {
		return nil, err
	}
	if why := p.Refused(); why != "" {
		return nil, exitWith(exitUsage, errors.New(why))
	}
	if note := early(p, v, ctx.Err()); note != "" {
		fmt.Fprintf(cmd.ErrOrStderr(), "holdfast: %s\n", note)
	}
	return v, nil
}

// resumable returns the plan and the provider of a run to resume. Besides --resume the user may
// set only flags that do not change the run.
func resumable(cmd *cobra.Command, dir string) (*run.Plan, clusters.Provider, error) {
	var other []string
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if !slices.Contains([]string{"resume", "dry-run", "output", "timeout", "key"}, f.Name) {
			other = append(other, "--"+f.Name)
		}
	})
	if len(other) > 0 {
		return nil, nil, usageError("--resume continues a run as it was planned: leave out %s", strings.Join(other, ", "))
	}
	p, err := run.Load(dir)
	if err != nil {
		return nil, nil, exitWith(exitUsage, err)
	}
	if p.Harness != holdfastVersion() {
		return nil, nil, usageError("run %s was started by holdfast %s, and this is %s: resume it with that version, or start a new run", p.Run, p.Harness, holdfastVersion())
	}
	provider, err := providerNamed(p.Provider)
	return p, provider, err
}

func printLeft(cmd *cobra.Command, p *run.Plan, dir string, asJSON bool) error {
	left := p.Unsettled(dir)
	if asJSON {
		return reports.WriteJSON(cmd.OutOrStdout(), left)
	}
	_, err := fmt.Fprintf(cmd.OutOrStdout(), "%d of %s are left: %s\n", len(left), units(p), strings.Join(left, ", "))
	return err
}

func resumed(ctx context.Context, cmd *cobra.Command, dir string, dryRun bool, output *outputFlag[*reports.Results]) error {
	p, provider, err := resumable(cmd, dir)
	if err == nil && len(p.Rows) > 0 {
		err = usageError("the run in %s is a certification: continue it with holdfast certify --resume %s", dir, dir)
	}
	if err != nil {
		return err
	}
	if dryRun {
		return printLeft(cmd, p, dir, output.json())
	}
	v, err := carryOut(ctx, cmd, provider, p, dir, true)
	if err != nil {
		return err
	}
	return announce(cmd, v, output, slices.DeleteFunc([]string{v.NotJudged(), reportIn(dir)}, empty)...)
}

// early says why verdicts are missing, if any are: an interrupted run settles less, but its
// missing verdicts do not point to an overloaded machine.
func early(p *run.Plan, v *run.Verdicts, interrupted error) string {
	starved := run.Starved(v.Results)
	why := "interrupted"
	if errors.Is(interrupted, context.DeadlineExceeded) {
		why = "--timeout has expired"
	}
	// The problem of each part that was interrupted, and of nothing else, ends with that word alone.
	left := slices.DeleteFunc(strings.Split(p.Problem, "\n"), func(line string) bool {
		return line == "" || strings.HasSuffix(line, run.ErrInterrupted.Error())
	})
	switch {
	case interrupted != nil && len(left) > 0:
		return why + ", and the run had a problem: " + strings.Join(left, "\n") + "; what was settled by then is in the report"
	case interrupted != nil && p.Attach:
		return why + ": faults were healed and the cluster released; what was settled by then is in the report"
	case interrupted != nil:
		return why + ": faults were healed and clusters deleted; what was settled by then is in the report"
	case p.Problem != "":
		return "the run had a problem: " + p.Problem
	case len(starved) > 0:
		return fmt.Sprintf("the machine was overloaded during %s, so timeouts there prove nothing: run them again, with nothing else on the machine", strings.Join(starved, ", "))
	}
	return ""
}

// randomSeed returns a seed short enough to type again.
func randomSeed() uint64 {
	return uint64(rand.Uint32())
}

// checkResultsDir refuses a results directory that is not empty, or that this user cannot write to or
// create.
func checkResultsDir(dir string) error {
	entries, err := os.ReadDir(dir)
	switch {
	case err == nil && len(entries) > 0:
		return usageError("the results directory %s is not empty; name another one with --out", dir)
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return usageError("the results directory cannot be used: %w; name another one with --out", err)
	}
	existing, err := filepath.Abs(dir)
	for err == nil {
		if err = unix.Access(existing, unix.W_OK|unix.X_OK); err == nil {
			return nil
		}
		if errors.Is(err, fs.ErrNotExist) {
			existing, err = filepath.Dir(existing), nil
		}
	}
	return usageError("the results directory %s cannot be used: failed to write to %s: %w; name another one with --out", dir, existing, err)
}

func isTerminal(w any) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// takeOver takes over the cluster of an inventory, if the flags name one.
func (f *clusterFlags) takeOver(cmd *cobra.Command, attach *string) error {
	remote := remote.Provider{}.Name()
	switch asked := cmd.Flags().Changed("provider"); {
	case f.inventory == "" && asked && f.provider == remote:
		return usageError("--provider %s takes over an existing cluster: name its inventory with --inventory (holdfast inventory init writes one)", remote)
	case f.inventory == "":
		return nil
	case *attach != "":
		return usageError("--attach and --inventory both name a cluster to take over: want one of them")
	case asked && f.provider != remote:
		return usageError("--inventory: want --provider %s, which is the default with it", remote)
	}
	f.provider, *attach = remote, f.inventory
	return nil
}
