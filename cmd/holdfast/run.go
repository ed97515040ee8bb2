package main

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"
	"golang.org/x/term"

	"github.com/holdfast-ha/holdfast/clusters"
	"github.com/holdfast-ha/holdfast/clusters/release"
	"github.com/holdfast-ha/holdfast/reports"
	"github.com/holdfast-ha/holdfast/scenarios"
	"github.com/holdfast-ha/holdfast/suites"
)

func newRunCommand() *cobra.Command {
	var (
		f        clusterFlags
		profile  string
		globs    []string
		files    []string
		seed     uint64
		out      string
		dryRun   bool
		parallel int
		attach   string
	)
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Put a cluster under faults and give a verdict on each requirement",
		Long: `Make clusters, run scenarios on them, and write a report with a verdict on each
requirement that they settle. The clusters and everything else that was started
end with the run, however it ends.

Scenarios share clusters; those that ask for another one than the rest get it. Up
to --parallel clusters run side by side, each with about 1.6 GiB for three nodes
and a core while it has traffic. Where that overloads the machine, so that a verdict
is lost, the scenario is repeated at the end with nothing beside it.

With --attach the run takes over a cluster that somebody else has made, and lets go of
it in the end: agents are taken out, and what the traffic made is deleted. Scenarios
that ask for another cluster, or that change which nodes there are, do not apply. The
cluster is put under faults, and is out of service meanwhile.

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
	flags.StringSliceVarP(&files, "file", "f", nil, "scenario files of your own, instead of a profile")
	flags.Uint64Var(&seed, "seed", 0, "seed of traffic and faults (default a random one, which is printed)")
	flags.StringVar(&out, "out", "", "results directory; it must be new or empty (default results/DATE-TIME)")
	flags.IntVar(&parallel, "parallel", 0, "how many clusters at a time (default what cores and memory allow)")
	flags.StringVar(&attach, "attach", "", "name of a cluster that there is and that is to be taken over for the run, with the provider kind")
	flags.BoolVar(&dryRun, "dry-run", false, "print what would be done, and do nothing")
	output := addOutputFlag(cmd)

	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		provider, err := providerNamed(f.provider)
		if err != nil {
			return err
		}
		spec, err := f.clusterOrAttach(cmd, provider, attach)
		if err != nil {
			return err
		}
		chosen, err := chooseScenarios(profile, globs, files)
		if err != nil {
			return exitWith(exitUsage, err)
		}
		if chosen = suites.Here(provider, spec, chosen); attach != "" {
			chosen = suites.AsItIs(chosen)
		}
		if len(globs)+len(files) > 0 {
			profile = ""
		}
		if !flags.Changed("seed") {
			seed = randomSeed()
		}
		p := &plan{Run: fmt.Sprintf("%s-%08x", time.Now().UTC().Format("20060102T150405Z"), uint32(seed)), Provider: provider.Name(),
			Profile: profile, Seed: seed, Harness: holdfastVersion(), Started: time.Now(), Command: os.Args, Cluster: spec, Attach: attach != "", Scenarios: chosen, Machine: machineInfo()}
		switch {
		case attach != "" && flags.Changed("parallel") && parallel != 1:
			return usageError("--parallel %d: with --attach there is one cluster", parallel)
		case attach != "":
			parallel = 1
		case !flags.Changed("parallel"):
			memory, _ := freeMemory() // 0 is not known
			machines := len(spec.Spec.Nodes)
			if sizer, ok := provider.(clusters.Sizer); ok {
				machines = sizer.Machines(spec)
			}
			parallel = defaultParallel(runtime.GOMAXPROCS(0), memory, machines)
		case parallel < 1:
			return usageError("--parallel %d: at least 1", parallel)
		}
		if err := p.divide(parallel); err != nil {
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
			if err := prepare(cmd.Context(), provider, shown, all...); err != nil {
				return err
			}
		}
		if err := os.MkdirAll(filepath.Join(out, "logs"), 0o755); err != nil {
			return fmt.Errorf("making the results directory: %w; name another one with --out", err)
		}
		shown.Line("run %s: %s on %s of %d nodes, %d at a time, Kubernetes %s, seed %d; expected to take %s", p.Run, plural(len(chosen), "scenario"),
			plural(len(p.Parts), "cluster"), len(spec.Spec.Nodes), p.Parallel, spec.Spec.KubernetesVersion, seed, p.Expected.Round(time.Second))
		if err := savePlan(out, p); err != nil {
			return err
		}
		problem := errors.Join(p.carryOut(cmd.Context(), out, shown), p.letGo(cmd.Context(), provider))
		p.Ended = time.Now()
		d, err := deriveFrom(p, out)
		if err == nil && problem == nil && p.repeats(len(suites.Starved(d.results))) {
			problem = p.repeat(cmd.Context(), out, suites.Starved(d.results), shown)
			p.Ended = time.Now()
			d, err = deriveFrom(p, out)
		}
		shown.Done()
		if problem != nil {
			p.Problem = problem.Error()
		}
		saved := savePlan(out, p)
		if err == nil {
			err = d.write(out)
		}
		if err := errors.Join(saved, err); err != nil {
			return errors.Join(problem, err)
		}
		if problem != nil {
			fmt.Fprintf(cmd.ErrOrStderr(), "holdfast: the run ended early: %v\n", problem)
		}
		if names := suites.Starved(d.results); len(names) > 0 {
			fmt.Fprintf(cmd.ErrOrStderr(), "holdfast: the machine was overloaded during %s, so that what took too long there counts for nothing: run that again, with nothing beside it\n",
				strings.Join(names, ", "))
		}
		return d.announce(cmd, out, *output)
	}
	return cmd
}

func chooseScenarios(profile string, globs, files []string) ([]*scenarios.Scenario, error) {
	var chosen []*scenarios.Scenario
	names := map[string]string{}
	for _, f := range files {
		s, err := scenarios.Load(f)
		if err != nil {
			return nil, err
		}
		if other := names[s.Metadata.Name]; other != "" {
			return nil, fmt.Errorf("%s and %s both hold a scenario %s; names must differ", other, f, s.Metadata.Name)
		}
		names[s.Metadata.Name] = f
		chosen = append(chosen, s)
	}
	if len(files) > 0 && len(globs) == 0 {
		return chosen, nil
	}
	known := false
	for _, p := range scenarios.Profiles {
		known = known || p == profile
	}
	if !known {
		return nil, fmt.Errorf("--profile %s: allowed are %s", profile, strings.Join(scenarios.Profiles, ", "))
	}
	selected, err := suites.Select(scenarios.All(), profile, globs)
	if err != nil {
		return nil, err
	}
	for _, s := range selected {
		if f := names[s.Metadata.Name]; f != "" {
			return nil, fmt.Errorf("%s holds a scenario %s, which there is already; names must differ", f, s.Metadata.Name)
		}
	}
	return append(chosen, selected...), nil
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

func lastLines(path string) string {
	b, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(b)), "\n")
	return strings.Join(lines[max(0, len(lines)-5):], "\n")
}

// machineInfo describes the machine for reports.
func machineInfo() reports.Machine {
	m := reports.Machine{OS: runtime.GOOS, Arch: runtime.GOARCH, Cores: runtime.NumCPU()}
	var u unix.Utsname
	if unix.Uname(&u) == nil {
		m.Kernel = unix.ByteSliceToString(u.Release[:])
	}
	var info unix.Sysinfo_t
	if unix.Sysinfo(&info) == nil {
		m.MemoryBytes = uint64(info.Totalram) * uint64(info.Unit)
	}
	return m
}

func isTerminal(w any) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// etcdVersion is that of the cluster's members, for reports.
func etcdVersion(c *clusters.Cluster) string {
	if c.Spec.EtcdVersion == "" {
		return release.EmbeddedEtcd
	}
	return c.Spec.EtcdVersion
}

func kwokVersion(c *clusters.Cluster) string {
	if c.Spec.Workers == 0 {
		return ""
	}
	return release.DefaultKwok
}
