package agent

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"

	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/workload/etcdtest"
)

// TestLeash checks that an agent without requests heals what is active, long before its time
// is over, and that one with requests does not.
func TestLeash(t *testing.T) {
	t.Parallel()
	n := newNode(t, scheduler, framework.ControllerManager)
	n.config.Leash = 2 * time.Second
	n.up()
	held := n.runs(scheduler)
	n.runs(framework.ControllerManager)
	must(t, n.Kill(t.Context(), scheduler, time.Hour))
	must(t, n.Freeze(t.Context(), framework.ControllerManager, time.Hour))
	for end := time.Now().Add(2 * n.config.Leash); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		must(t, n.Ping(t.Context()))
	}
	if left, err := n.Active(t.Context()); err != nil || len(left) != 2 {
		t.Fatalf("with a request every 100ms the agent has %q active, want both faults; error %v", left, err)
	}
	if ago, err := n.Lapsed(t.Context()); err != nil || ago != 0 {
		t.Errorf("with a request every 100ms it healed early %s ago, error %v", ago, err)
	}
	// An agent that takes over has a leash of its own.
	n.kill()
	n.up()
	time.Sleep(n.config.Leash + 2*leashPause)
	left, err := n.Active(t.Context())
	if err != nil || len(left) != 0 {
		t.Errorf("after %s without a request %q is still active, error %v", n.config.Leash, left, err)
	}
	if ago, err := n.Lapsed(t.Context()); err != nil || ago <= 0 || ago > 3*leashPause+n.config.Leash {
		t.Errorf("it healed early %s ago, error %v", ago, err)
	}
	if p := n.runs(scheduler); p.Held || p.PID == held.PID {
		t.Errorf("the scheduler is %+v", p)
	}
	n.runs(framework.ControllerManager)
}

// TestLeashOfRefusedRequests: requests that the agent refuses, since its clock is ahead of the
// harness's, do not keep a fault active that none of them could end.
func TestLeashOfRefusedRequests(t *testing.T) {
	t.Parallel()
	n := newNode(t, scheduler)
	n.config.Leash = 2 * time.Second
	n.up()
	n.runs(scheduler)
	must(t, n.Freeze(t.Context(), scheduler, time.Hour))
	for end := time.Now().Add(n.config.Leash + 3*leashPause); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		conn, err := net.Dial("unix", n.config.Socket)
		must(t, err)
		_, err = conn.Write([]byte("GET /ping HTTP/1.0\r\nHoldfast-Until: 1\r\n\r\n"))
		must(t, err)
		answer := make([]byte, 12)
		if _, err := io.ReadFull(conn, answer); err != nil || string(answer) != "HTTP/1.0 412" {
			t.Errorf("answered %q, %v", answer, err)
		}
		must(t, conn.Close())
	}
	if left, err := n.Active(t.Context()); err != nil || len(left) > 0 {
		t.Errorf("active are %q, %v", left, err)
	}
}

// TestLeashDuringChange: a change of etcd's data that does not come to an end, and whose client does not
// end it, delays the end of no other fault.
func TestLeashDuringChange(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	suffix := fmt.Sprint("-", nodes.Add(1))
	all := []framework.Component{etcdPod, scheduler, framework.ControllerManager}
	for i, pause := range []string{"0.2", "0.05", "0.05"} { // the member is started before it has been down for settleTime
		command := string(all[i]) + suffix
		supervised(t, command, pause)
		n.config.Components = append(n.config.Components, Component{Name: all[i], Command: command})
	}
	n.config.EtcdData, n.config.Leash = t.TempDir(), 3*time.Second
	n.up()
	for _, c := range all {
		n.runs(c)
	}
	for _, c := range all[1:] {
		must(t, n.Kill(t.Context(), c, time.Hour))
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan error, 1)
	go func() {
		_, err := n.WipeDisk(ctx, time.Hour)
		done <- err
	}()
	time.Sleep(n.config.Leash + 3*leashPause)
	select {
	case err := <-done:
		t.Fatalf("the change is over: %v", err)
	default:
	}
	left, err := n.Active(t.Context())
	if err != nil || len(left) != 1 || !strings.HasPrefix(left[0], "etcd is held down") {
		t.Errorf("after the leash %q is active, want the member's hold alone; error %v", left, err)
	}
	cancel()
	if err := <-done; err == nil {
		t.Error("the data were wiped under a member that runs")
	}
}

// TestLeashOfLinks checks the same for the network, and that the tables can be removed.
func TestLeashOfLinks(t *testing.T) {
	t.Parallel()
	l := newLab(t, 1)
	n := l.nodes[node1]
	n.kill()
	n.config.Leash = time.Second
	n.up()
	l.impair(framework.Impairment{Cut: true}, time.Hour, link(node2))
	if l.passes(node2) {
		t.Fatal("the link is not cut")
	}
	eventually(t, "the link is whole", func() bool { time.Sleep(2 * leashPause); return l.passes(node2) })

	n.kill()
	exe, err := os.Executable()
	must(t, err)
	clear := &exec.Cmd{Path: exe, Args: []string{roleAgent, clearArgument}, Stderr: os.Stderr}
	must(t, n.start(clear))
	must(t, clear.Wait())
	l.inside(node1, func() error {
		b, err := newBatch()
		if err != nil {
			return err
		}
		if left, err := b.ListTables(); err != nil || len(left) > 0 {
			t.Errorf("tables of nftables are left: %v, error %v", left, err)
		}
		return nil
	})
}

// TestControlPort checks that the harness reaches the agent's port through every cut, and no other port.
func TestControlPort(t *testing.T) {
	t.Parallel()
	l := newLab(t, 1)
	n := l.nodes[node1]
	n.kill()
	n.config.ControlPort = 2222
	n.up()
	// The other host is the harness's.
	harness := Party{Name: framework.HarnessHost, Prefixes: []netip.Prefix{netip.MustParsePrefix(hostAddr(node2) + "/32")}}
	l.network.Replace([]Party{{Name: hostName(node1), Prefixes: []netip.Prefix{netip.MustParsePrefix(hostAddr(node1) + "/32")}, Agents: []*Client{n.Client}}, harness})
	must(t, l.network.Meet(t.Context()))
	l.serve(node1, 2222)
	l.serve(node1, 80)
	control, other := l.mustDial(node2, 2222), l.mustDial(node2, 80)
	handle := l.impair(framework.Impairment{Cut: true}, time.Hour,
		framework.Link{From: hostName(node1), To: framework.HarnessHost}, framework.Link{From: framework.HarnessHost, To: hostName(node1)})
	if err := echo(control, 5*time.Second); err != nil {
		t.Errorf("the control port is cut: %v", err)
	}
	if err := echo(other, quiet); err == nil {
		t.Error("another port is not cut")
	}
	if c := l.counters(handle); c.Dropped == 0 {
		t.Errorf("nothing was dropped: %+v", c)
	}
	l.restore(handle)
}

// TestDialEtcd reads and writes in etcd through an agent, which alone has a certificate.
func TestDialEtcd(t *testing.T) {
	t.Parallel()
	member, err := etcdtest.New(t, 1).EtcdConfig("node-1")
	must(t, err)
	n := newNode(t)
	n.config.EtcdClient = EtcdClient{URL: member.Endpoints[0]}
	n.up()
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{"http://node-1"}, DialTimeout: 5 * time.Second,
		DialOptions: []grpc.DialOption{grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return n.DialEtcd(ctx) })}})
	must(t, err)
	defer client.Close()
	watch := client.Watch(t.Context(), "a")
	_, err = client.Put(t.Context(), "a", string(make([]byte, 1<<20)))
	must(t, err)
	got, err := client.Get(t.Context(), "a")
	must(t, err)
	if len(got.Kvs) != 1 || len(got.Kvs[0].Value) != 1<<20 {
		t.Errorf("it read %d keys", len(got.Kvs))
	}
	if w := <-watch; len(w.Events) != 1 {
		t.Errorf("the watch gave %+v", w)
	}

	n.config.EtcdClient.URL = "http://127.0.0.1:1"
	n.kill()
	n.up()
	if _, err := n.DialEtcd(t.Context()); err == nil {
		t.Error("a member that does not answer was reached")
	}
}

// TestEtcdClientTLS: what the agent authenticates with is read from the node's files.
func TestEtcdClientTLS(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "none")
	if _, err := (EtcdClient{URL: "https://127.0.0.1:1", CA: file, Cert: file, Key: file}).dial(t.Context()); err == nil {
		t.Error("it dials without a certificate")
	}
}

// TestHealAll has an agent heal what is active long before its time is over.
func TestHealAll(t *testing.T) {
	t.Parallel()
	n := newNode(t, scheduler, framework.ControllerManager)
	n.up()
	n.runs(scheduler)
	n.runs(framework.ControllerManager)
	must(t, n.HealAll(t.Context()))
	if ago, err := n.Lapsed(t.Context()); err != nil || ago != 0 {
		t.Errorf("nothing was active, but it has healed early: %s ago, %v", ago, err)
	}
	must(t, n.Kill(t.Context(), scheduler, time.Hour))
	must(t, n.Freeze(t.Context(), framework.ControllerManager, time.Hour))
	must(t, n.HealAll(t.Context()))
	if ago, err := n.Lapsed(t.Context()); err != nil || ago == 0 {
		t.Errorf("it does not say that it has healed early: %v", err)
	}
	eventually(t, "nothing is active", func() bool {
		left, err := n.Active(t.Context())
		return err == nil && len(left) == 0
	})
	n.runs(scheduler)
	n.runs(framework.ControllerManager)
}
