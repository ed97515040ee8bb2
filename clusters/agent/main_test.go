package agent

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/holdfast-ha/holdfast/clusters/sandbox"
	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/polltest"
	"github.com/holdfast-ha/holdfast/framework/workload/etcdtest"
)

// TestMain runs the tests in new user, mount, PID and network namespaces, so that
// they need no privileges, find no processes but their own and leave nothing behind.
func TestMain(m *testing.M) {
	etcdtest.ProxyMain(func() (clientv3.Config, error) {
		members := map[string][]string{"node-1": {"http://" + etcdtest.OutsideAddress + ":2379"}}
		return (&ownCluster{a: &agent{}, members: members}).EtcdConfig("node-1")
	})
	shimMain()
	Main()
	sandbox.Main()
	if !sandbox.Inside() {
		os.Exit(sandbox.Reexec())
	}
	flag.Parse()
	// Under nohup, children would ignore it; one that is caught is back to its default in them.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP)
	// Most of them wait for times to be over.
	if err := flag.Set("test.parallel", "8"); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

// testNode is a node with an agent of its own, which is a process of its own, and a
// kubelet that starts what has a manifest.
type testNode struct {
	*Client
	t      *testing.T
	config Config
	file   string
	agent  *exec.Cmd
	// kubelet is nil without static pods.
	kubelet *kubelet
	// start starts a command, in the node's network namespace if it has one.
	start func(*exec.Cmd) error
	// took is how long the agent took to start.
	took time.Duration
}

// nodes distinguishes the processes of tests that run at the same time.
var nodes atomic.Int64

const testManifest = `apiVersion: v1
kind: Pod
metadata:
  name: %[1]s
  namespace: kube-system
spec:
  containers:
  - name: %[1]s
    command:
    - %[1]s
    - --name=node-1
    - --initial-advertise-peer-urls=https://10.0.0.1:2380
    - --initial-cluster=node-1=https://10.0.0.1:2380
    - --initial-cluster-state=new
    ports:
    - {containerPort: 2381, hostPort: 2381}
  hostNetwork: true
`

// newNode makes a node with static pods, and starts its agent.
func newNode(t *testing.T, pods ...framework.Component) *testNode {
	t.Helper()
	dir := t.TempDir()
	n := &testNode{t: t, file: filepath.Join(dir, "agent.json"), start: (*exec.Cmd).Start}
	n.config = Config{Socket: filepath.Join(dir, "run", "agent.sock"), Dir: filepath.Join(dir, "state"),
		Audit: filepath.Join(dir, "audit.log")}
	manifests, suffix := filepath.Join(dir, "kubernetes", "manifests"), fmt.Sprintf("-%d", nodes.Add(1))
	mkdir(t, manifests)
	for _, pod := range pods {
		path := filepath.Join(manifests, string(pod)+".yaml")
		write(t, path, fmt.Sprintf(testManifest, pod))
		n.config.Components = append(n.config.Components, Component{Name: pod, Command: string(pod) + suffix, Parent: shimRole + suffix, Manifest: path})
	}
	n.Client = NewClient("node-1", func(ctx context.Context) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", n.config.Socket)
	})
	t.Cleanup(n.Close)
	if len(pods) > 0 {
		n.kubelet = runKubelet(t, manifests, suffix)
	}
	return n
}

// up starts the agent and waits until it answers.
func (n *testNode) up() {
	n.t.Helper()
	b, err := json.Marshal(n.config)
	if err != nil {
		n.t.Fatal(err)
	}
	write(n.t, n.file, string(b))
	exe, err := os.Executable()
	if err != nil {
		n.t.Fatal(err)
	}
	n.agent = &exec.Cmd{Path: exe, Args: []string{roleAgent, n.file}, Env: os.Environ(), Stdout: os.Stdout, Stderr: os.Stderr}
	if err := n.start(n.agent); err != nil {
		n.t.Fatal(err)
	}
	started, began := n.agent, time.Now()
	n.t.Cleanup(func() {
		_ = started.Process.Kill()
		_ = started.Wait()
	})
	eventually(n.t, "the agent answers", func() bool { return n.Ping(n.t.Context()) == nil })
	n.took = time.Since(began)
}

// beyond returns a time to live that is not over when the agent was killed and started again, also on
// a busy machine.
func (n *testNode) beyond(least time.Duration) time.Duration { return least + 4*n.took }

// kill ends the agent by SIGKILL.
func (n *testNode) kill() {
	n.t.Helper()
	if err := n.agent.Process.Kill(); err != nil {
		n.t.Fatal(err)
	}
	_ = n.agent.Wait()
}

// restarted makes the state look like one from before a restart of the node.
func (n *testNode) restarted() {
	n.t.Helper()
	n.saves("boot", "another")
}

// saves puts a value into the state of an agent that does not run.
func (n *testNode) saves(key string, value any) {
	n.t.Helper()
	file := filepath.Join(n.config.Dir, "state.json")
	var s map[string]any
	b, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(b, &s)
	}
	if err == nil {
		s[key] = value
		b, err = json.Marshal(s)
	}
	if err != nil {
		n.t.Fatal(err)
	}
	write(n.t, file, string(b))
}

func (n *testNode) process(c framework.Component) framework.Process {
	n.t.Helper()
	p, err := n.Process(n.t.Context(), c)
	if err != nil {
		n.t.Fatal(err)
	}
	return p
}

// runs waits until a component runs, and returns its process.
func (n *testNode) runs(c framework.Component) (p framework.Process) {
	n.t.Helper()
	eventually(n.t, string(c)+" runs", func() bool {
		p = n.process(c)
		return p.PID != 0 && p.State != "T"
	})
	return p
}

// sleeper returns a command that does nothing, under a name.
func sleeper(t *testing.T, name string) *exec.Cmd {
	t.Helper()
	path, err := exec.LookPath("sleep")
	if err != nil {
		t.Fatal(err)
	}
	return &exec.Cmd{Path: path, Args: []string{name, "1000"}}
}

const patience = 20 * time.Second

var eventually = polltest.Until

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func refused(t *testing.T, err error) {
	t.Helper()
	if !errors.Is(err, framework.ErrNothingDone) {
		t.Errorf("%v is not framework.ErrNothingDone", err)
	}
}

func mkdir(t *testing.T, dir string) {
	t.Helper()
	must(t, os.MkdirAll(dir, 0o755))
}

func write(t *testing.T, file, text string) {
	t.Helper()
	must(t, os.WriteFile(file, []byte(text), 0o600))
}

func exists(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}
