// Package ginkgotest runs the Ginkgo suite of package suites as users do, with and without the
// ginkgo program, and kills it.
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
		if out, err = exec.Command("go", "test", "-c", "-ldflags=-s -w", "-o", suite, "..").CombinedOutput(); err != nil {
			err = fmt.Errorf("go test -c: %w: %s", err, out)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

// mark is set in the environment of all processes that a test starts, down to the clusters'.
const mark = "HOLDFAST_TEST_MARK"

// command returns a run of the suite: with the ginkgo program and that many processes, or without
// it if procs is 0.
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
	if err != nil && !errors.As(err, new(*exec.ExitError)) {
		t.Fatalf("%v: %v\n%s", cmd.Args, err, b)
	}
	return string(b), cmd.ProcessState.ExitCode()
}

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

// gone waits until all processes of a test have exited.
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

// names returns the specs that ran according to a JSON report, sorted.
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

// junit returns the specs of a JUnit report by scenario name.
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
