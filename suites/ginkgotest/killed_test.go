package ginkgotest

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/clusters"
	"github.com/holdfast-ha/holdfast/clusters/local/localtest"
)

// TestKilled checks that nothing is left behind, whichever process is killed in the middle.
func TestKilled(t *testing.T) {
	localtest.NeedClusters(t, clusters.Default())
	long := strings.NewReplacer("CLUSTER", "{}", "4s", "300s").Replace(ownScenario)
	other := strings.NewReplacer("CLUSTER", `{extraArgs: {kube-scheduler: {v: "1"}}}`, "4s", "300s").Replace(ownScenario)
	for name, tc := range map[string]struct {
		procs int
		kill  func(t *testing.T, cmd *exec.Cmd)
		// survives: ginkgo reports the rest
		survives bool
	}{
		"ginkgo": {2, func(t *testing.T, cmd *exec.Cmd) { signal(t, cmd.Process.Pid, syscall.SIGKILL) }, false},
		"one process of two": {2, func(t *testing.T, cmd *exec.Cmd) {
			signal(t, children(t, cmd.Process.Pid)[0], syscall.SIGKILL)
			time.Sleep(2 * time.Second)
			signal(t, -cmd.Process.Pid, syscall.SIGINT) // otherwise the other one continues
		}, true},
		"Ctrl-C": {1, func(t *testing.T, cmd *exec.Cmd) { signal(t, -cmd.Process.Pid, syscall.SIGINT) }, true},
		"Ctrl-C twice": {2, func(t *testing.T, cmd *exec.Cmd) {
			signal(t, -cmd.Process.Pid, syscall.SIGINT)
			time.Sleep(500 * time.Millisecond)
			signal(t, -cmd.Process.Pid, syscall.SIGINT)
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
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
