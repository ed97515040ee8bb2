package agent

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/workload/etcdtest"
)

// promisingNode is a node whose agent reaches a real etcd. What it is for is not tested in
// parallel: members of etcd take the processors from tests that mind the time.
func promisingNode(t *testing.T, members int, pods ...framework.Component) (n *testNode, client *clientv3.Client, urls map[string][]string) {
	t.Helper()
	c := etcdtest.New(t, members)
	urls = map[string][]string{}
	for _, m := range c.Nodes() {
		config, err := c.EtcdConfig(m.Name())
		must(t, err)
		urls[m.Name()] = config.Endpoints
	}
	config, err := c.EtcdConfig(fmt.Sprintf("node-%d", members))
	must(t, err)
	client, err = clientv3.New(config)
	must(t, err)
	t.Cleanup(func() { _ = client.Close() })
	n = newNode(t, pods...)
	return n, client, urls
}

func undoing(t *testing.T, fault string, data any) framework.Undoing {
	t.Helper()
	b, err := json.Marshal(data)
	must(t, err)
	return framework.Undoing{Fault: fault, Data: b}
}

// A promise is kept when its time is over, also by an agent that was killed and restarted in
// that time, and by no other process: the harness is gone.
func TestPromisesAreKept(t *testing.T) {
	n, client, urls := promisingNode(t, 1)
	n.up()
	members, err := client.MemberList(t.Context())
	must(t, err)
	id := members.Members[0].ID
	put := func(keys ...string) {
		for _, key := range keys {
			_, err := client.Put(t.Context(), key, "x")
			must(t, err)
		}
	}
	left := func(prefix string) int64 {
		got, err := client.Get(t.Context(), prefix, clientv3.WithPrefix(), clientv3.WithCountOnly())
		must(t, err)
		return got.Count
	}
	put("/registry/validatingwebhookconfigurations/holdfast-webhook-hang-1", "/registry/validatingwebhookconfigurations/another",
		"/registry/clusterroles/holdfast-overload-1", "/registry/clusterrolebindings/holdfast-overload-1")
	raise(t, client, id)
	const long = 1500 * time.Millisecond
	began := time.Now()
	for handle, u := range map[string]framework.Undoing{
		"webhook": undoing(t, "webhook-hang", "holdfast-webhook-hang-1"), "overload": undoing(t, "overload", "holdfast-overload-1"),
		"alarm": undoing(t, "alarm", map[string]any{"member": id, "type": pb.AlarmType_NOSPACE}),
	} {
		must(t, n.promise(t.Context(), handle, u, urls, long))
	}
	if what, err := n.Active(t.Context()); err != nil || len(what) != 3 || !strings.Contains(strings.Join(what, ","), "webhook-hang is to be undone until") {
		t.Errorf("active: %v, %v", what, err)
	}
	n.kill()
	if alarms(t, client) == 0 && time.Since(began) < long {
		t.Fatal("it is undone before its time")
	}
	n.up()
	eventually(t, "the alarm is gone", func() bool { return alarms(t, client) == 0 })
	eventually(t, "what was registered is gone", func() bool { return left("/registry/") == 1 })
	if lasted := time.Since(began); lasted < long {
		t.Errorf("it is undone after %s", lasted)
	}
	if left("/registry/validatingwebhookconfigurations/another") != 1 {
		t.Error("what others registered is gone")
	}
	eventually(t, "the promises are kept", func() bool { what, _ := n.Active(t.Context()); return len(what) == 0 })
}

// What is withdrawn is not undone.
func TestPromisesAreWithdrawn(t *testing.T) {
	n, client, urls := promisingNode(t, 1)
	n.up()
	members, err := client.MemberList(t.Context())
	must(t, err)
	id := members.Members[0].ID
	u := undoing(t, "alarm", map[string]any{"member": id, "type": pb.AlarmType_NOSPACE})
	must(t, n.promise(t.Context(), "a", u, urls, 500*time.Millisecond))
	must(t, n.withdraw(t.Context(), "a"))
	must(t, n.withdraw(t.Context(), "a"))
	raise(t, client, id)
	time.Sleep(time.Second)
	if alarms(t, client) != 1 {
		t.Error("an alarm is gone whose promise was withdrawn")
	}
	if err := n.promise(t.Context(), "b", u, nil, time.Second); err == nil {
		t.Error("it promises without knowing a member of etcd")
	}
	refused(t, n.promise(t.Context(), "b", u, urls, 0))
}

// The agent of a node does what no other one can: it starts its own member, and restarts
// its own processes.
func TestPromisesOfTheOwnNode(t *testing.T) {
	n, client, urls := promisingNode(t, 3, framework.Etcd, framework.APIServer)
	n.config.EtcdData = t.TempDir()
	n.up()
	before := n.runs(framework.APIServer)
	n.runs(framework.Etcd)
	must(t, n.promise(t.Context(), "restore", undoing(t, "restore-snapshot", nil), urls, 200*time.Millisecond))
	eventually(t, "the API server is another one", func() bool { p := n.process(framework.APIServer); return p.PID != 0 && p.PID != before.PID })

	members, err := client.MemberList(t.Context())
	must(t, err)
	at := slices.IndexFunc(members.Members, func(m *pb.Member) bool { return m.Name == "node-1" })
	own := members.Members[at]
	eventually(t, "the member can be removed", func() bool { _, err := client.MemberRemove(t.Context(), own.ID); return err == nil })
	must(t, n.promise(t.Context(), "remove", undoing(t, "remove-member", map[string]any{"node": "node-1", "urls": own.PeerURLs}), urls, 200*time.Millisecond))
	eventually(t, "the member is added, and started as one that joins", func() bool {
		args, err := manifest(n.config.Components[0].Manifest).arguments()
		return err == nil && args["initial-cluster-state"] == "existing"
	})
	members, err = client.MemberList(t.Context())
	must(t, err)
	if len(members.Members) != 3 || slices.ContainsFunc(members.Members, func(m *pb.Member) bool { return m.ID == own.ID }) {
		t.Errorf("the members are %v", members.Members)
	}
}

// raise raises an alarm in the name of a member.
func raise(t *testing.T, client *clientv3.Client, id uint64) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	_, err := pb.NewMaintenanceClient(client.ActiveConnection()).Alarm(ctx,
		&pb.AlarmRequest{Action: pb.AlarmRequest_ACTIVATE, MemberID: id, Alarm: pb.AlarmType_NOSPACE})
	must(t, err)
}

func alarms(t *testing.T, client *clientv3.Client) int {
	t.Helper()
	list, err := client.AlarmList(t.Context())
	must(t, err)
	return len(list.Alarms)
}
