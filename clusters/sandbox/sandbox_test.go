package sandbox

import (
	"bufio"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/clusters/procfs"
)

func TestSandboxEndsWithItsParent(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	parent := exec.Command(exe)
	parent.Env = append(os.Environ(), testRole+"=parent")
	out, err := parent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != "sandboxed\n" {
		t.Fatalf("the sandbox said %q, %v", line, err)
	}
	inside, err := procfs.ChildWhere(parent.Process.Pid, func(pids []int) bool { return pids[len(pids)-1] == 1 })
	if err != nil {
		t.Fatal(err)
	}
	if err := parent.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = parent.Wait()
	deadline := time.Now().Add(10 * time.Second)
	for syscall.Kill(inside, 0) == nil && !zombie(inside) {
		if time.Now().After(deadline) {
			t.Fatalf("process %d, the first of the sandbox, outlives the one that made it by 10 s", inside)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// zombie reports whether a process has exited and only waits to be reaped: the test's own first
// process does not reap other processes' children.
func zombie(pid int) bool {
	st, err := procfs.ReadStat("/proc", pid)
	return err == nil && st.State == "Z"
}

// What is set for programs of the host does not reach the components of a cluster.
func TestEnvironment(t *testing.T) {
	hosts := []string{"https_proxy", "HTTPS_PROXY", "http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY", "no_proxy", "NO_PROXY", "ETCD_NAME"}
	for _, name := range append([]string{"ETCDCTL_ENDPOINTS"}, hosts...) {
		t.Setenv(name, "set")
	}
	cmd, err := Command(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range hosts {
		if slices.Contains(cmd.Env, name+"=set") {
			t.Errorf("%s is set in the sandbox", name)
		}
	}
	if !slices.Contains(cmd.Env, "ETCDCTL_ENDPOINTS=set") {
		t.Error("ETCDCTL_ENDPOINTS is missing in the sandbox")
	}
}

func TestNoInterfaceLeadsOut(t *testing.T) {
	b, err := os.ReadFile("/proc/net/dev")
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range strings.Split(string(b), "\n")[2:] {
		name, _, ok := strings.Cut(strings.TrimSpace(line), ":")
		// The kernel puts tunnel end points into every namespace; they are down.
		if ok && name != "lo" && !strings.HasPrefix(name, "holdfast") && !strings.HasSuffix(name, "0") {
			t.Errorf("the sandbox has an interface %s", name)
		}
	}
	routes, err := os.ReadFile("/proc/net/route")
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range strings.Split(strings.TrimSpace(string(routes)), "\n")[1:] {
		if f := strings.Fields(line); len(f) > 2 && f[1] == "00000000" {
			t.Errorf("the sandbox has a default route: %s", line)
		}
	}
}
