// Package ginkgotest runs the Ginkgo suite of package suites as its users do, with and
// without the ginkgo program, and kills it.
package ginkgotest

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/onsi/ginkgo/v2/types"

	"github.com/holdfast-ha/holdfast/clusters"
	"github.com/holdfast-ha/holdfast/clusters/local"
	"github.com/holdfast-ha/holdfast/clusters/release"
	"github.com/holdfast-ha/holdfast/framework/judge"
	"github.com/holdfast-ha/holdfast/reports"
	"github.com/holdfast-ha/holdfast/scenarios"
	"github.com/holdfast-ha/holdfast/suites/run"
)

// suite is the suite's test binary.
var suite string

func TestMain(m *testing.M) {
	clusters.Main(local.Provider{})
	run.Program{Providers: []clusters.Provider{local.Provider{}}}.Main()
	os.Exit(built(m))
}

func built(m *testing.M) int {
	dir, err := os.MkdirTemp("", "holdfast-suite-")
	if err == nil {
		defer os.RemoveAll(dir)
		suite = filepath.Join(dir, "suites.test")
		var out []byte
		if out, err = exec.Command("go", "test", "-c", "-o", suite, "..").CombinedOutput(); err != nil {
			err = fmt.Errorf("go test -c: %w: %s", err, out)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

// mark is in the environment of all processes that a test starts, down to the clusters'.
const mark = "HOLDFAST_TEST_MARK"

// command returns a run of the suite: with the ginkgo program for as many processes or, for
// 0, without it.
func command(t *testing.T, procs int, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), suite, append([]string{"-test.timeout=0", "-ginkgo.no-color"}, args...)...)
	if procs > 0 {
		ginkgo, err := exec.CommandContext(t.Context(), "go", "tool", "-n", "ginkgo").Output()
		if err != nil {
			t.Fatalf("go tool -n ginkgo: %v", err)
		}
		var flags, rest []string // of ginkgo, of the suite
		for _, a := range args {
			if flag, ok := strings.CutPrefix(a, "-ginkgo."); ok && len(rest) == 0 {
				flags = append(flags, "--"+flag)
			} else {
				rest = append(rest, a)
			}
		}
		flags = append([]string{"run", "--no-color", "--procs=" + strconv.Itoa(procs)}, flags...)
		cmd = exec.CommandContext(t.Context(), strings.TrimSpace(string(ginkgo)), append(append(flags, suite, "--"), rest...)...)
	}
	cmd.Dir = t.TempDir()
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Env = append(os.Environ(), mark+"="+t.Name())
	return cmd
}

// output runs a command and returns what it printed and its exit code.
func output(t *testing.T, cmd *exec.Cmd) (string, int) {
	t.Helper()
	b, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatalf("%v: %v\n%s", cmd.Args, err, b)
	}
	return string(b), cmd.ProcessState.ExitCode()
}

// fetched skips the test if the machine cannot create clusters yet.
func fetched(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("creates clusters")
	}
	for _, b := range local.Binaries(clusters.Default()) {
		if _, err := release.Lookup(b.Product, b.Version, release.Options{}); err != nil {
			t.Skipf("run `holdfast fetch %s %s` first: %v", b.Product, b.Version, err)
		}
	}
}

// TestSelection: what runs follows from Ginkgo's filters and the profile, and is listed by
// a dry run.
func TestSelection(t *testing.T) {
	in := func(accept func(*scenarios.Scenario) bool) (names []string) {
		for _, s := range scenarios.All() {
			if accept(s) {
				names = append(names, s.Metadata.Name)
			}
		}
		slices.Sort(names)
		return names
	}
	area := func(s *scenarios.Scenario, area string) bool {
		return slices.ContainsFunc(s.Spec.Requirements, func(r scenarios.Settles) bool { return strings.HasPrefix(r.ID, "HA-"+area+"-") })
	}
	id := func(s *scenarios.Scenario, id string) bool {
		return slices.ContainsFunc(s.Spec.Requirements, func(r scenarios.Settles) bool { return r.ID == id })
	}
	injects := func(s *scenarios.Scenario, fault string) bool {
		return slices.ContainsFunc(s.Spec.Timeline, func(step scenarios.Step) bool { return step.Inject != nil && step.Inject.Fault == fault })
	}
	smoke := in(func(s *scenarios.Scenario) bool { return s.In("smoke") })
	coreQR := in(func(s *scenarios.Scenario) bool { return s.In("core") && area(s, "QR") })
	file := write(t, "mine.yaml", strings.ReplaceAll(ownScenario, "NAME", "mine"))
	for name, tc := range map[string]struct {
		env, args []string
		want      []string
	}{
		"nothing":                 {nil, nil, smoke},
		"profile":                 {nil, []string{"--profile", "core"}, in(func(s *scenarios.Scenario) bool { return s.In("core") })},
		"variable":                {[]string{"HOLDFAST_PROFILE=core"}, nil, in(func(s *scenarios.Scenario) bool { return s.In("core") })},
		"flag before variable":    {[]string{"HOLDFAST_PROFILE=core"}, []string{"--profile", "smoke"}, smoke},
		"filter":                  {nil, []string{"-ginkgo.label-filter=core && QR"}, coreQR},
		"filter and profile":      {nil, []string{"-ginkgo.label-filter=QR", "--profile", "core"}, coreQR},
		"a requirement or others": {nil, []string{"-ginkgo.label-filter=HA-QR-005 || (core && LE)"}, in(func(s *scenarios.Scenario) bool { return id(s, "HA-QR-005") || s.In("core") && area(s, "LE") })},
		"a fault":                 {nil, []string{"-ginkgo.label-filter=fault-power-off && needs-PowerSwitch && disruptive"}, in(func(s *scenarios.Scenario) bool { return injects(s, "power-off") })},
		"focus":                   {nil, []string{"-ginkgo.focus=quorum-lost"}, []string{"quorum-lost"}},
		"own":                     {nil, []string{"--file", file}, []string{"mine"}},
		"own and smoke":           {nil, []string{"--file", file, "-ginkgo.label-filter=own || smoke"}, append([]string{"mine"}, smoke...)},
	} {
		t.Run(name, func(t *testing.T) {
			cmd := command(t, 0, append([]string{"-ginkgo.dry-run", "-ginkgo.json-report=report.json"}, tc.args...)...)
			cmd.Env = append(cmd.Env, tc.env...)
			if text, code := output(t, cmd); code != 0 {
				t.Fatalf("exit code %d:\n%s", code, text)
			}
			got := names(t, filepath.Join(cmd.Dir, "report.json"))
			slices.Sort(tc.want)
			if !slices.Equal(got, tc.want) {
				t.Errorf("runs %v, want %v", got, tc.want)
			}
			if left, _ := filepath.Glob(filepath.Join(cmd.Dir, "results")); len(left) > 0 {
				t.Errorf("a dry run has made %v", left)
			}
		})
	}
}

// TestFolder: the ginkgo program takes the package for a Ginkgo suite, and passes its flags.
func TestFolder(t *testing.T) {
	text, code := output(t, exec.CommandContext(t.Context(), "go", "tool", "ginkgo", "run", "--dry-run", "--no-color", "--focus=quorum-lost", ".."))
	if code != 0 || !strings.Contains(text, "Will run 1 of ") {
		t.Errorf("exit code %d:\n%s", code, text)
	}
}

func TestBadFlags(t *testing.T) {
	odd := write(t, "odd.yaml", "kind: Nothing\n")
	for _, tc := range []struct{ args, want string }{
		{"--provider cloud", "--provider cloud: allowed are local, kind"},
		{"--profile huge", "--profile huge: allowed are smoke, core, full"},
		{"--cluster " + odd, odd},
		{"--file " + odd, odd},
		{"--file nowhere.yaml", "nowhere.yaml"},
		{"--seed x", `invalid value "x" for flag -seed`},
	} {
		if text, code := output(t, command(t, 0, append([]string{"-ginkgo.dry-run"}, strings.Fields(tc.args)...)...)); code == 0 || !strings.Contains(text, tc.want) {
			t.Errorf("%s: exit code %d, without %q:\n%s", tc.args, code, tc.want, text)
		}
	}
	cmd := command(t, 0, "-ginkgo.dry-run")
	cmd.Env = append(cmd.Env, "HOLDFAST_SEED=x")
	if text, code := output(t, cmd); code == 0 || !strings.Contains(text, "HOLDFAST_SEED=x: ") {
		t.Errorf("exit code %d:\n%s", code, text)
	}
}

// ownScenario checks the endpoints of a healthy cluster.
const ownScenario = `
apiVersion: holdfast.dev/v1alpha1
kind: Scenario
metadata: {name: NAME}
spec:
  cluster: CLUSTER
  timeline:
  - wait: 4s
  requirements:
  - {id: HA-EP-001, judge: endpoints-match}
`

// offAndIsolated isolates a member whose node has no power: its fault cannot take effect.
const offAndIsolated = `
apiVersion: holdfast.dev/v1alpha1
kind: Scenario
metadata: {name: off-and-isolated}
spec:
  timeline:
  - wait: 4s
  - inject: {fault: power-off, target: node/3, as: off}
  - inject: {fault: isolate-etcd, target: etcd/3, as: cut}
  - wait: 2s
  requirements:
  - {id: HA-QR-002, judge: isolated-member, fault: cut, bound: 2E + M}
`

// needsFive does not apply to a cluster of three nodes.
var needsFive = strings.NewReplacer("NAME", "needs-five", "CLUSTER", "{}", "spec:", "spec:\n  minNodes: 5").Replace(ownScenario)

// TestVerdicts runs on two processes: a planted violation, a fault that cannot take effect,
// and a scenario that does not apply. They share a results directory.
func TestVerdicts(t *testing.T) {
	fetched(t)
	planted := strings.NewReplacer("NAME", "planted", "CLUSTER", "{extraArgs: {kube-apiserver: {endpoint-reconciler-type: none}}}").Replace(ownScenario)
	files := []string{write(t, "planted.yaml", planted), write(t, "off-and-isolated.yaml", offAndIsolated), write(t, "needs-five.yaml", needsFive)}
	cmd := command(t, 2, "-ginkgo.junit-report=junit.xml", "-ginkgo.output-dir=.", "--out", "out", "--file", strings.Join(files, ","))
	out := filepath.Join(cmd.Dir, "out")
	cmd.Args[len(cmd.Args)-3] = out
	text, code := output(t, cmd)
	if code != 1 {
		t.Errorf("exit code %d", code)
	}
	results, err := reports.Load(out)
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	if v, err := run.Judge(out); err != nil || len(run.Starved(v.Results)) > 0 {
		t.Skipf("the machine was overloaded, %v", err)
	}
	if len(results.Run.Clusters) != 2 || results.Run.Clusters[0].Took <= 0 || results.Run.Clusters[1].Took <= 0 {
		t.Errorf("clusters: %+v", results.Run.Clusters)
	}
	cases := junit(t, filepath.Join(cmd.Dir, "junit.xml"))
	sentence := ""
	for _, r := range results.Requirements {
		want := map[string]judge.Verdict{"HA-EP-001": judge.Fail, "HA-QR-002": judge.Inconclusive}[r.ID]
		if want != "" && r.Verdict != want {
			t.Errorf("%s is %s, want %s: %s", r.ID, r.Verdict, want, r.Sentence)
		}
		if r.ID == "HA-EP-001" {
			sentence = r.Sentence
		}
	}
	// Who is told what: a failure has the judge's sentence, a skip says why.
	if failure := cases["planted"].Failure; sentence == "" || !strings.Contains(failure, "HA-EP-001: "+sentence) {
		t.Errorf("planted failed with %q, want %q", failure, sentence)
	}
	if why := cases["off-and-isolated"].Skipped.Message; !strings.Contains(why, "inconclusive: ") || !strings.Contains(why, "proof") {
		t.Errorf("off-and-isolated was skipped with %q", why)
	}
	if why := cases["needs-five"].Skipped.Message; !strings.Contains(why, "not applicable: the scenario takes 5 control-plane nodes") {
		t.Errorf("needs-five was skipped with %q", why)
	}
	if left, _ := filepath.Glob(filepath.Join(out, ".*.lock")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	gone(t, t.Name())
	if t.Failed() {
		t.Log(text)
	}
}

// TestAsHoldfastRun: the suite gives the verdicts that `holdfast run` gives with the same
// seed, and an inconclusive spec alone fails the suite.
func TestAsHoldfastRun(t *testing.T) {
	fetched(t)
	chosen, err := run.Choose("smoke", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	provider := local.Provider{}
	p := run.New(provider, clusters.Default(), chosen, 42, "test")
	if err := p.Divide(provider, 1); err != nil {
		t.Fatal(err)
	}
	v, err := p.CarryOut(t.Context(), provider, filepath.Join(t.TempDir(), "out"), run.Show{
		Line: t.Logf, Board: func(*run.Plan) (run.Board, error) { return silent{}, nil }})
	if err != nil {
		t.Fatal(err)
	}
	cmd := command(t, 0, "--seed", "42", "--out", "out")
	text, code := output(t, cmd)
	suite, err := run.Judge(filepath.Join(cmd.Dir, "out"))
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	if len(run.Starved(v.Results))+len(run.Starved(suite.Results)) > 0 {
		t.Skip("the machine was overloaded")
	}
	if want := min(1, reports.ExitCode(suite.Results)); code != want {
		t.Errorf("exit code %d, want %d:\n%s", code, want, text)
	}
	if suite.Plan.Seed != 42 || len(suite.Plan.Scenarios) != len(chosen) {
		t.Errorf("seed %d, %d scenarios", suite.Plan.Seed, len(suite.Plan.Scenarios))
	}
	// By requirement, as reports have them. What holds in every run may have had nothing to
	// judge: whether a component acted is a matter of milliseconds.
	of := func(v *run.Verdicts) map[string]judge.Verdict {
		all := map[string]judge.Verdict{}
		for _, r := range reports.New(v.Report(), v.Results, nil).Requirements {
			all[r.ID] = r.Verdict
			if strings.HasPrefix(r.ID, "HA-INV-") && r.Verdict == judge.NotApplicable {
				all[r.ID] = judge.Pass
			}
		}
		return all
	}
	want := of(v)
	for key, verdict := range of(suite) {
		if want[key] != verdict {
			t.Errorf("%s: %s, and %s by holdfast run", key, verdict, want[key])
		}
		delete(want, key)
	}
	if len(want) > 0 {
		t.Errorf("only by holdfast run: %v", want)
	}
}

// TestKilled: whatever is killed in the middle, nothing is left behind.
func TestKilled(t *testing.T) {
	fetched(t)
	long := strings.NewReplacer("CLUSTER", "{}", "4s", "300s").Replace(ownScenario)
	other := strings.NewReplacer("CLUSTER", `{extraArgs: {kube-scheduler: {v: "1"}}}`, "4s", "300s").Replace(ownScenario)
	for name, tc := range map[string]struct {
		procs int
		kill  func(t *testing.T, cmd *exec.Cmd)
		// survives: ginkgo reports the rest
		survives bool
	}{
		"ginkgo":  {1, func(t *testing.T, cmd *exec.Cmd) { signal(t, cmd.Process.Pid, syscall.SIGKILL) }, false},
		"ginkgo2": {2, func(t *testing.T, cmd *exec.Cmd) { signal(t, cmd.Process.Pid, syscall.SIGKILL) }, false},
		"one process of two": {2, func(t *testing.T, cmd *exec.Cmd) {
			signal(t, children(t, cmd.Process.Pid)[0], syscall.SIGKILL)
			time.Sleep(2 * time.Second)
			signal(t, -cmd.Process.Pid, syscall.SIGINT) // the other one would run on
		}, true},
		"Ctrl-C": {1, func(t *testing.T, cmd *exec.Cmd) { signal(t, -cmd.Process.Pid, syscall.SIGINT) }, true},
		"Ctrl-C twice": {2, func(t *testing.T, cmd *exec.Cmd) {
			signal(t, -cmd.Process.Pid, syscall.SIGINT)
			time.Sleep(500 * time.Millisecond)
			signal(t, -cmd.Process.Pid, syscall.SIGINT)
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			files := write(t, "one.yaml", strings.ReplaceAll(long, "NAME", "one")) + "," + write(t, "two.yaml", strings.ReplaceAll(other, "NAME", "two"))
			cluster := write(t, "cluster.yaml", "apiVersion: holdfast.dev/v1alpha1\nkind: Cluster\nmetadata: {name: small}\nspec: {nodes: [{}], data: disk}\n")
			cmd := command(t, tc.procs, "--cluster", cluster, "--file", files, "--out", "OUT")
			out := filepath.Join(cmd.Dir, "out")
			cmd.Args[len(cmd.Args)-1] = out
			var text bytes.Buffer
			cmd.Stdout, cmd.Stderr = &text, &text
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			await(t, 2*time.Minute, "as many scenarios as processes", func() bool {
				running, _ := filepath.Glob(filepath.Join(out, "record", "*", "*"))
				return len(running) >= tc.procs
			})
			tc.kill(t, cmd)
			_ = cmd.Wait()
			gone(t, t.Name())
			if data, _ := filepath.Glob(filepath.Join(out, "data-*")); tc.survives && name == "Ctrl-C" && len(data) > 0 {
				t.Errorf("left behind: %v", data)
			}
			if _, err := os.Stat(filepath.Join(out, "report.html")); tc.survives && name == "Ctrl-C" && err != nil {
				t.Errorf("no report: %v\n%s", err, text.String())
			}
		})
	}
}

type silent struct{}

func (silent) Says(string, string)         {}
func (silent) Begins(string, string)       {}
func (silent) Settled(string, run.Settled) {}
func (silent) Ended(string)                {}
func (silent) Close()                      {}

func write(t *testing.T, name, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(file, []byte(strings.ReplaceAll(text, "CLUSTER", "{}")), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func signal(t *testing.T, pid int, s syscall.Signal) {
	t.Helper()
	if err := syscall.Kill(pid, s); err != nil {
		t.Fatal(err)
	}
}

func children(t *testing.T, pid int) (pids []int) {
	t.Helper()
	lists, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range lists {
		b, _ := os.ReadFile(l)
		for _, word := range strings.Fields(string(b)) {
			child, _ := strconv.Atoi(word)
			pids = append(pids, child)
		}
	}
	if len(pids) == 0 {
		t.Fatalf("process %d has no children", pid)
	}
	return pids
}

// gone waits until no process of a test is left.
func gone(t *testing.T, name string) {
	t.Helper()
	await(t, 20*time.Second, "all processes to be gone", func() bool {
		environs, _ := filepath.Glob("/proc/[0-9]*/environ")
		for _, e := range environs {
			if b, err := os.ReadFile(e); err == nil && bytes.Contains(b, []byte(mark+"="+name+"\x00")) {
				return false
			}
		}
		return true
	})
}

func await(t *testing.T, atMost time.Duration, what string, done func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), atMost)
	defer cancel()
	for !done() {
		select {
		case <-ctx.Done():
			t.Fatalf("waited for %s for %s", what, atMost)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// names returns the specs that ran by a JSON report, sorted.
func names(t *testing.T, file string) (names []string) {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var all []types.Report
	if err := json.Unmarshal(b, &all); err != nil {
		t.Fatal(err)
	}
	for _, spec := range all[0].SpecReports {
		if spec.LeafNodeType == types.NodeTypeIt && spec.State.Is(types.SpecStatePassed) {
			names = append(names, spec.LeafNodeText)
		}
	}
	slices.Sort(names)
	return names
}

// testCase is a spec in a JUnit report.
type testCase struct {
	Name    string `xml:"name,attr"`
	Failure string `xml:"failure"`
	Skipped struct {
		Message string `xml:"message,attr"`
	} `xml:"skipped"`
}

// junit returns the specs of a JUnit report by the scenario's name.
func junit(t *testing.T, file string) map[string]testCase {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var report struct {
		Cases []testCase `xml:"testsuite>testcase"`
	}
	if err := xml.Unmarshal(b, &report); err != nil {
		t.Fatal(err)
	}
	cases := map[string]testCase{}
	for _, c := range report.Cases {
		text, _, _ := strings.Cut(c.Name, " [own")
		words := strings.Fields(text)
		cases[words[len(words)-1]] = c
	}
	return cases
}
