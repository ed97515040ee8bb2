package main

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"
	"golang.org/x/term"

	"github.com/holdfast-ha/holdfast/clusters"
	"github.com/holdfast-ha/holdfast/clusters/local"
	"github.com/holdfast-ha/holdfast/clusters/release"
	"github.com/holdfast-ha/holdfast/reports"
	"github.com/holdfast-ha/holdfast/scenarios"
	"github.com/holdfast-ha/holdfast/suites"
)

// planFile is the plan of a run in its results directory.
const planFile = "plan.json"

// plan is what a run is to do: the worker reads it, and so do later commands on
// the results directory.
type plan struct {
	Run       string                `json:"run"`
	Provider  string                `json:"provider"`
	Profile   string                `json:"profile"`
	Seed      uint64                `json:"seed"`
	Harness   string                `json:"harness"`
	Started   time.Time             `json:"started"`
	Command   []string              `json:"command"`
	Cluster   *clusters.Cluster     `json:"cluster"`
	Scenarios []*scenarios.Scenario `json:"scenarios"`
	Machine   reports.Machine       `json:"machine"`
	Problem   string                `json:"problem,omitempty"` // why it ended early
	Ended     time.Time             `json:"ended,omitzero"`
}

func newRunCommand() *cobra.Command {
	var (
		f       clusterFlags
		profile string
		globs   []string
		files   []string
		seed    uint64
		out     string
		dryRun  bool
	)
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Put a cluster under faults and give a verdict on each requirement",
		Long: `Make a cluster, run scenarios on it, and write a report with a verdict on each
requirement that they settle. The cluster and everything else that was started
end with the run, however it ends.

Exit codes: 0 all pass, 1 a requirement failed, 2 bad input, 3 inconclusive.`,
		Example: `  holdfast run                             # profile core
  holdfast run --profile smoke --out results/smoke
  holdfast run --scenario 'etcd-*' --nodes 5
  holdfast run -f mine.yaml --cluster cluster.yaml
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
	flags.BoolVar(&dryRun, "dry-run", false, "print what would be done, and do nothing")
	output := addOutputFlag(cmd)

	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		spec, err := f.cluster()
		if err != nil {
			return err
		}
		chosen, err := chooseScenarios(profile, globs, files)
		if err != nil {
			return exitWith(exitUsage, err)
		}
		chosen = suites.Here(spec, chosen)
		if len(globs)+len(files) > 0 {
			profile = ""
		}
		if !flags.Changed("seed") {
			seed = randomSeed()
		}
		p := &plan{Run: fmt.Sprintf("%s-%08x", time.Now().UTC().Format("20060102T150405Z"), uint32(seed)), Provider: f.provider,
			Profile: profile, Seed: seed, Harness: holdfastVersion(), Started: time.Now(), Command: os.Args, Cluster: spec, Scenarios: chosen, Machine: machineInfo()}
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
		if err := ensureBinaries(cmd, spec, shown); err != nil {
			return err
		}
		if err := os.MkdirAll(filepath.Join(out, "logs"), 0o755); err != nil {
			return fmt.Errorf("making the results directory: %w; name another one with --out", err)
		}
		shown.Line("run %s: %d scenarios on %d nodes, Kubernetes %s, seed %d", p.Run, len(chosen), len(spec.Spec.Nodes), spec.Spec.KubernetesVersion, seed)
		if err := savePlan(out, p); err != nil {
			return err
		}
		problem := runWorker(cmd.Context(), out, shown)
		shown.Done()
		p.Ended = time.Now()
		if problem != nil {
			p.Problem = problem.Error()
		}
		saved := savePlan(out, p)
		d, err := deriveFrom(p, out)
		if err == nil {
			err = d.write(out)
		}
		if err := errors.Join(saved, err); err != nil {
			return errors.Join(problem, err)
		}
		if problem != nil {
			fmt.Fprintf(cmd.ErrOrStderr(), "holdfast: the run ended early: %v\n", problem)
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

func savePlan(dir string, p *plan) error {
	b, err := json.MarshalIndent(p, "", "  ")
	if err == nil {
		// Whole or not at all: later commands cannot do without it.
		path := filepath.Join(dir, planFile)
		if err = os.WriteFile(path+".tmp", b, 0o644); err == nil {
			err = os.Rename(path+".tmp", path)
		}
	}
	if errors.Is(err, unix.ENOSPC) {
		return fmt.Errorf("writing the plan of the run: %w; free some space or name another directory with --out", err)
	}
	if err != nil {
		return fmt.Errorf("writing the plan of the run: %w", err)
	}
	return nil
}

func loadPlan(dir string) (*plan, error) {
	path := filepath.Join(dir, planFile)
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, usageError("%s is no results directory of holdfast run: %w", dir, err)
	}
	var p plan
	if err := json.Unmarshal(b, &p); err != nil {
		return nil, usageError("%s: %w", path, err)
	}
	if p.Cluster == nil || len(p.Scenarios) == 0 {
		return nil, usageError("%s: no cluster or no scenario in it", path)
	}
	return &p, nil
}

func printPlan(cmd *cobra.Command, p *plan, output outputFormat) error {
	if output == outputJSON {
		return writeJSON(cmd.OutOrStdout(), p)
	}
	w := cmd.OutOrStdout()
	fmt.Fprintf(w, "cluster: provider %s, %d control-plane nodes, Kubernetes %s, balancer %s, %d simulated workers\n",
		p.Provider, len(p.Cluster.Spec.Nodes), p.Cluster.Spec.KubernetesVersion, p.Cluster.Spec.LoadBalancer.Kind, p.Cluster.Spec.Workers)
	settings, err := clusters.Settings(p.Cluster)
	if err != nil {
		return exitWith(exitUsage, err)
	}
	total := 15 * time.Second
	for _, s := range p.Scenarios {
		total += s.Expected(settings)
		fmt.Fprintf(w, "\n%s (at least %s)\n  %s\n", s.Metadata.Name, s.Expected(settings), s.Spec.Summary)
		for _, step := range s.Spec.Timeline {
			if in := step.Inject; in != nil {
				fmt.Fprintf(w, "  touches: %s of %s\n", in.Fault, in.Target)
			}
		}
		for _, r := range s.Spec.Requirements {
			bound := ""
			if r.Bound != "" {
				bound = ", bound " + r.Bound
			}
			fmt.Fprintf(w, "  settles: %s by %s%s\n", r.ID, r.Judge, bound)
		}
	}
	_, err = fmt.Fprintf(w, "\nexpected time: %s or more, plus what its conditions wait for; nothing has been touched\n", total)
	return err
}

const workerCommand = "run-worker"

// progressFD is where a worker tells what happens: behind the three streams and
// the sandbox's lifeline.
const progressFD = 4

// runWorker runs the plan in a sandbox, and returns why it ended early, if it did.
func runWorker(ctx context.Context, dir string, shown *progress) error {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	cmd, err := local.Command(ctx, local.SandboxOptions{}, workerCommand, abs)
	if err != nil {
		return err
	}
	log, err := os.Create(filepath.Join(dir, "logs", "worker.log"))
	if err != nil {
		return fmt.Errorf("making the log of the run: %w", err)
	}
	defer log.Close()
	r, err := startWorker(cmd, log)
	if err != nil {
		return err
	}
	defer r.Close()
	for lines := bufio.NewScanner(r); lines.Scan(); {
		shown.Line("%5s  %s", shown.Elapsed(), lines.Text())
	}
	_, _ = io.Copy(io.Discard, r) // a line too long to show must not block the worker
	err = cmd.Wait()
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil:
		return errors.New("interrupted")
	case errors.As(err, &exit) && exit.ExitCode() == exitFail:
		return nil // some spec did not pass; the records say what
	case err != nil:
		return fmt.Errorf("the worker ended: %w; it said: %s", err, lastLines(log.Name()))
	}
	return nil
}

// startWorker starts a worker with its output going to log, and returns where it
// tells what happens (see progressFD).
func startWorker(cmd *exec.Cmd, log *os.File) (*os.File, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer w.Close()
	cmd.Stdout, cmd.Stderr = log, log
	cmd.ExtraFiles = append(cmd.ExtraFiles, w)
	if err := cmd.Start(); err != nil {
		_ = r.Close()
		return nil, local.ExplainStart(fmt.Errorf("starting the sandbox: %w", err))
	}
	return r, nil
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
