package main

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/clusters/kind/engine"
	"github.com/holdfast-ha/holdfast/clusters/system"
)

// kindUp is the name of the test's cluster.
const kindUp = "holdfast-up-test"

// kindLeft lists the containers and networks of the test's cluster.
func kindLeft(t *testing.T) string {
	t.Helper()
	e, err := engine.Find(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, args := range [][]string{
		{"ps", "--all", "--filter", "label=io.x-k8s.kind.cluster=" + kindUp, "--format", "{{.Names}}"},
		{"network", "ls", "--filter", "name=" + kindUp, "--format", "{{.Name}}"},
	} {
		out, err := e.Docker(t.Context(), args...).Output()
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, strings.Fields(string(out))...)
	}
	return strings.Join(all, " ")
}

// kindNothing checks that nothing of the cluster is left after a short time.
func kindNothing(t *testing.T) {
	t.Helper()
	left := "?"
	for deadline := time.Now().Add(3 * time.Minute); left != "" && time.Now().Before(deadline); time.Sleep(time.Second) {
		left = kindLeft(t)
	}
	if left != "" {
		t.Errorf("left in the engine: %s", left)
	}
}

// kindKeepers returns the keeper and the server of the cluster.
func kindKeepers(t *testing.T) (pids []int) {
	t.Helper()
	dir := filepath.Join(system.StateRoot(), kindUp)
	for _, verb := range []string{"keep", "serve"} {
		lines, _ := filepath.Glob("/proc/[0-9]*/cmdline")
		for _, l := range lines {
			b, _ := os.ReadFile(l)
			if string(b) != "holdfast-keeper\x00"+verb+"\x00"+dir+"\x00" {
				continue
			}
			pid, err := strconv.Atoi(filepath.Base(filepath.Dir(l)))
			if err != nil {
				t.Fatal(err)
			}
			pids = append(pids, pid)
		}
	}
	if len(pids) != 2 {
		t.Fatalf("the processes that keep the cluster: %v", pids)
	}
	return pids
}

// TestKindUpForReal creates a kind cluster that stays, runs the commands on it, and kills its
// keeper. It needs root, the setup in docs/kind.md, and ten minutes:
//
//	HOLDFAST_TEST_KIND=1 go test ./cmd/holdfast -run TestKindUpForReal -v -timeout 60m
func TestKindUpForReal(t *testing.T) {
	if os.Getenv("HOLDFAST_TEST_KIND") == "" {
		t.Skip("set HOLDFAST_TEST_KIND=1")
	}
	c := commandLine{t: t} // the engine's address, if holdfast started it
	name := func(args ...string) []string {
		command, rest := args[0], args[1:]
		return append([]string{command, "--name", kindUp}, rest...)
	}
	up := name("up", "--provider", "kind", "--wait")
	t.Cleanup(func() { _ = c.command(name("down")...).Run() })
	_, said := c.do(exitPass, up...)
	t.Log(said)

	t.Run("commands", func(t *testing.T) {
		c := commandLine{t: t}
		node := kindUp + "-control-plane"
		_, errOut := c.do(exitUsage, up...)
		c.contains(errOut, "is already running", "holdfast down --name "+kindUp)
		out, _ := c.do(exitPass, name("status")...)
		c.contains(out, ": ready", node+"2", kindUp+"-worker", "leader, term", "active", "load-balancer", "kube-apiserver", "10.88.")
		out, _ = c.do(exitPass, name("kubectl", "--", "get", "nodes")...)
		c.contains(out, node, kindUp+"-worker", "Ready")
		out, _ = c.do(exitPass, name("shell", node+"2", "--", "sh", "-c", "hostname; ls $ETCDCTL_CACERT; kubectl get --raw /readyz")...)
		c.contains(out, node+"2", "/etc/kubernetes/pki/etcd/ca.crt", "ok")
		out, _ = c.do(exitPass, name("shell", "--", "sh", "-c", "kubectl version 2>/dev/null; grep server: $KUBECONFIG")...)
		c.contains(out, "server: https://10.88.")
		_, errOut = c.do(exitUsage, name("shell", "nobody", "--", "true")...)
		c.contains(errOut, "nobody", node)
		for host, components := range map[string]map[string]string{
			node:                               {"etcd": "leader", "kube-apiserver": "Serving", "kubelet": "kubelet", "containerd": "containerd", "audit": "auditID"},
			kindUp + "-external-load-balancer": {"load-balancer": ""},
		} {
			for component, words := range components {
				out, errOut := c.do(exitPass, name("logs", host, component)...)
				c.contains(out+errOut, words)
			}
		}
		_, errOut = c.do(exitUsage, name("logs", node, "nothing")...)
		c.contains(errOut, "etcd", "kubelet", "audit")
		_, errOut = c.do(exitUsage, name("logs", "nobody", "etcd")...)
		c.contains(errOut, "nobody", node)

		for _, f := range [][]string{{"kill", "etcd/leader"}, {"freeze", "kcm/active"}, {"isolate", "node/follower"}, {"power-off", "node/3"}} {
			out, _ = c.do(exitPass, name("inject", f[0], "--on", f[1], "--for", "2m")...)
			c.contains(out, f[0], "is active")
			out, _ = c.do(exitPass, name("status")...)
			c.contains(out, "HEALS IN", f[0])
			out, _ = c.do(exitPass, name("heal")...)
			c.contains(out, "is healed")
		}
	})

	// Following stops on Ctrl-C, and leaves nothing in the node.
	t.Run("follow", func(t *testing.T) {
		c := commandLine{t: t}
		follow := c.command(name("logs", kindUp+"-control-plane", "etcd", "--follow")...)
		r, err := follow.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := follow.Start(); err != nil {
			t.Fatal(err)
		}
		if _, err := bufio.NewReader(r).ReadString('\n'); err != nil {
			t.Fatal(err)
		}
		_ = follow.Process.Signal(os.Interrupt)
		if err := follow.Wait(); err != nil {
			t.Error(err)
		}
		out, _ := c.do(exitPass, name("shell", kindUp+"-control-plane", "--", "sh", "-c", "sleep 2; pgrep -a tail || echo none")...)
		c.contains(out, "none")
	})

	t.Run("keeper killed", func(t *testing.T) {
		c := commandLine{t: t}
		if err := syscall.Kill(kindKeepers(t)[0], syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		kindNothing(t)
		out, code := "", exitPass
		for deadline := time.Now().Add(time.Minute); code != exitUsage && time.Now().Before(deadline); {
			out, code = c.try(name("status")...) // the process that deleted the cluster exits a moment later
		}
		c.contains(out, "is not running")
	})

	t.Run("all killed", func(t *testing.T) {
		c := commandLine{t: t}
		if out, code := c.try(up...); code != exitPass {
			t.Fatal(out)
		}
		pids := kindKeepers(t)
		for _, kill := range []struct {
			pid int
			sig syscall.Signal
		}{{pids[0], syscall.SIGSTOP}, {pids[1], syscall.SIGKILL}, {pids[0], syscall.SIGKILL}} {
			if err := syscall.Kill(kill.pid, kill.sig); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Second)
		if kindLeft(t) == "" {
			t.Error("its containers went by themselves")
		}
		out, _ := c.do(exitPass, name("down")...)
		c.contains(out, "cluster "+kindUp+" deleted")
		kindNothing(t)
	})

	t.Run("interrupted", func(t *testing.T) {
		c := commandLine{t: t}
		making := c.command(up...)
		if err := making.Start(); err != nil {
			t.Fatal(err)
		}
		for deadline := time.Now().Add(5 * time.Minute); !strings.Contains(kindLeft(t), "control-plane"); time.Sleep(time.Second) {
			if time.Now().After(deadline) {
				t.Fatal("no container after 5 minutes")
			}
		}
		_ = making.Process.Signal(os.Interrupt)
		_ = making.Wait()
		if left := kindLeft(t); left != "" {
			t.Errorf("left in the engine: %s", left)
		}
		if _, err := os.Stat(filepath.Join(system.StateRoot(), kindUp)); err == nil {
			t.Error("its state is left")
		}
	})

	// holdfast does not take over a cluster that another program created.
	t.Run("another's", func(t *testing.T) {
		c := commandLine{t: t}
		e, err := engine.Find(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		image, err := e.Docker(t.Context(), "images", "--format", "{{.Repository}}:{{.Tag}}", "--filter", "dangling=false").Output()
		if err != nil || len(strings.Fields(string(image))) == 0 {
			t.Fatalf("no image to make a container of: %v", err)
		}
		const box = kindUp + "-control-plane"
		create := []string{"create", "--name", box, "--label", "io.x-k8s.kind.cluster=" + kindUp, "--entrypoint", "sleep", strings.Fields(string(image))[0], "1"}
		if out, err := e.Docker(t.Context(), create...).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v", out, err)
		}
		t.Cleanup(func() { _ = exec.Command("docker", "-H", e.Host, "rm", "--force", box).Run() })
		_, errOut := c.do(exitUsage, up...)
		c.contains(errOut, "already exists", "kind delete cluster")
		c.do(exitUsage, name("down")...)
		if !strings.Contains(kindLeft(t), box) {
			t.Error("another's container is gone")
		}
	})
}
