package agent

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"

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

// TestPromisesWithoutProxy: an agent reaches etcd directly, whatever the environment of its node.
func TestPromisesWithoutProxy(t *testing.T) { etcdtest.IgnoresProxy(t) }

// disarming undoes the alarm of a member.
func disarming(id uint64) framework.Undoing {
	return framework.Undoing{Fault: "alarm", Disarm: &framework.EtcdAlarm{Member: id, Type: "NOSPACE"}}
}

// promisedFault is a fault as it is while its harness is killed: what it has done, what it has
// promised, and whether anything of it is left.
type promisedFault struct {
	undoing framework.Undoing
	begin   func()
	left    func() bool
}

// promisedFaults are the faults whose undoing needs no process of a node: see
// TestPromisesOfTheOwnNode for the others.
func promisedFaults(t *testing.T, client *clientv3.Client) map[string]promisedFault {
	members, err := client.MemberList(t.Context())
	must(t, err)
	id := members.Members[0].ID
	put := func(value string, keys ...string) {
		for _, key := range keys {
			_, err := client.Put(t.Context(), key, value)
			must(t, err)
		}
	}
	has := func(prefix string) bool {
		got, err := client.Get(t.Context(), prefix, clientv3.WithPrefix(), clientv3.WithCountOnly())
		must(t, err)
		return got.Count > 0
	}
	const lease = "/registry/leases/kube-system/kube-scheduler"
	return map[string]promisedFault{
		"webhook-hang": {framework.Undoing{Fault: "webhook-hang", Delete: []string{"/registry/validatingwebhookconfigurations/holdfast-webhook-hang-1"}},
			func() { put("x", "/registry/validatingwebhookconfigurations/holdfast-webhook-hang-1") },
			func() bool { return has("/registry/validatingwebhookconfigurations/holdfast") }},
		"overload": {framework.Undoing{Fault: "overload", Delete: []string{"/registry/clusterroles/holdfast-overload-1", "/registry/clusterrolebindings/holdfast-overload-1"}},
			func() {
				put("x", "/registry/clusterroles/holdfast-overload-1", "/registry/clusterrolebindings/holdfast-overload-1")
			},
			func() bool {
				return has("/registry/clusterroles/holdfast") || has("/registry/clusterrolebindings/holdfast")
			}},
		"alarm": {disarming(id),
			func() { raise(t, client, id) },
			func() bool { return alarms(t, client) > 0 }},
		"fill-quota": {framework.Undoing{Fault: "fill-quota", FreeSpace: "holdfast/fill/"},
			func() {
				put(strings.Repeat("x", 512<<10), "holdfast/fill/0", "holdfast/fill/1")
				raise(t, client, id)
			},
			func() bool { return has("holdfast/fill/") || alarms(t, client) > 0 }},
		"lease-steal": {framework.Undoing{Fault: "lease-steal", Release: &framework.HeldLease{Key: lease, Holder: "holdfast-stranger"}},
			func() { put(stolenLease(t), lease) },
			func() bool {
				got, err := client.Get(t.Context(), lease)
				must(t, err)
				return len(got.Kvs) != 1 || strings.Contains(string(got.Kvs[0].Value), "holdfast-stranger")
			}},
	}
}

// stolenLease returns a lease that the stranger of the fault lease-steal holds, as API servers
// store it.
func stolenLease(t *testing.T) string {
	t.Helper()
	scheme := runtime.NewScheme()
	must(t, coordinationv1.AddToScheme(scheme))
	stranger, seconds, now := "holdfast-stranger", int32(15), metav1.NowMicro()
	var b bytes.Buffer
	must(t, protobuf.NewSerializer(scheme, scheme).Encode(&coordinationv1.Lease{
		TypeMeta:   metav1.TypeMeta{APIVersion: coordinationv1.SchemeGroupVersion.String(), Kind: "Lease"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "kube-scheduler"},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: &stranger, LeaseDurationSeconds: &seconds, AcquireTime: &now, RenewTime: &now},
	}, &b))
	return b.String()
}

// A promise is kept when its time is over, also by an agent that was killed and restarted in
// that time, and by no other process: the harness is gone.
func TestPromisesAreKept(t *testing.T) {
	n, client, urls := promisingNode(t, 1)
	n.up()
	others := []string{"/registry/validatingwebhookconfigurations/another", "/registry/clusterroles/another", "holdfast/other"}
	for _, key := range others {
		_, err := client.Put(t.Context(), key, "x")
		must(t, err)
	}
	for name, f := range promisedFaults(t, client) {
		const long = 1500 * time.Millisecond
		began := time.Now()
		must(t, n.promise(t.Context(), name, f.undoing, urls, long))
		f.begin()
		if what, err := n.Active(t.Context()); err != nil || len(what) != 1 || !strings.Contains(what[0], name+" is to be undone until") {
			t.Errorf("%s: active: %v, %v", name, what, err)
		}
		n.kill()
		if !f.left() && time.Since(began) < long {
			t.Fatalf("%s is undone before its time", name)
		}
		n.up()
		eventually(t, name+" is undone", func() bool { return !f.left() })
		if lasted := time.Since(began); lasted < long {
			t.Errorf("%s is undone after %s", name, lasted)
		}
		eventually(t, "the promise of "+name+" is kept", func() bool { what, err := n.Active(t.Context()); return err == nil && len(what) == 0 })
	}
	for _, key := range others {
		if got, err := client.Get(t.Context(), key); err != nil || len(got.Kvs) != 1 {
			t.Errorf("%s, which is not of a fault, is gone: %v", key, err)
		}
	}
}

// What is withdrawn is not undone.
func TestPromisesAreWithdrawn(t *testing.T) {
	n, client, urls := promisingNode(t, 1)
	n.up()
	members, err := client.MemberList(t.Context())
	must(t, err)
	id := members.Members[0].ID
	u := disarming(id)
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
	if err := n.promise(t.Context(), "b", framework.Undoing{Fault: "alarm"}, urls, time.Second); err == nil || !strings.Contains(err.Error(), "must set exactly one action, but sets 0") {
		t.Errorf("it promises to undo a fault, and not how: %v", err)
	}

	// An attempt that runs when its promise is withdrawn ends with that, and undoes no later fault.
	asked := make(chan context.Context, 100)
	hangs := grpc.NewServer(grpc.UnknownServiceHandler(func(_ any, s grpc.ServerStream) error {
		asked <- s.Context()
		<-s.Context().Done()
		return s.Context().Err()
	}))
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	go func() { _ = hangs.Serve(listener) }()
	t.Cleanup(hangs.Stop)
	must(t, n.promise(t.Context(), "d", u, map[string][]string{"node-1": {"http://" + listener.Addr().String()}}, 100*time.Millisecond))
	request := <-asked
	must(t, n.withdraw(t.Context(), "d"))
	select {
	case <-request.Done():
	case <-time.After(time.Second):
		t.Error("the attempt is still running")
	}
	if what, err := n.Active(t.Context()); err != nil || len(what) > 0 {
		t.Errorf("active: %v, %v", what, err)
	}

	// An earlier agent's, in a format that this one does not know.
	n.kill()
	n.saves("promises", map[string]promiseState{"c": {Undoing: framework.Undoing{Fault: "alarm"}, Own: "node-1", Members: urls, Until: time.Now()}})
	n.up()
	if what, err := n.Active(t.Context()); err != nil || len(what) > 0 {
		t.Errorf("active: %v, %v", what, err)
	}
}

// An agent reaches its own member as clients on its node do, also if other nodes do not reach it.
func TestPromisesOverLoopback(t *testing.T) {
	n, client, urls := promisingNode(t, 1)
	n.config.EtcdClient.URL = urls["node-1"][0]
	n.up()
	members, err := client.MemberList(t.Context())
	must(t, err)
	id := members.Members[0].ID
	raise(t, client, id)
	u := disarming(id)
	must(t, n.promise(t.Context(), "a", u, map[string][]string{"node-1": {"http://127.0.0.1:1"}}, 200*time.Millisecond))
	eventually(t, "the alarm is gone", func() bool { return alarms(t, client) == 0 })
}

// The agent of a node does what no other one can: it starts its own member, and restarts
// its own processes.
func TestPromisesOfTheOwnNode(t *testing.T) {
	n, client, urls := promisingNode(t, 3, framework.Etcd, framework.APIServer)
	n.config.EtcdData = t.TempDir()
	n.up()
	before := n.runs(framework.APIServer)
	n.runs(framework.Etcd)
	must(t, n.promise(t.Context(), "restore", framework.Undoing{Fault: "restore-snapshot", Restart: map[string]string{"kube-apiserver/node-1": before.ID()}}, urls, 200*time.Millisecond))
	eventually(t, "the API server is another one", func() bool { p := n.process(framework.APIServer); return p.PID != 0 && p.PID != before.PID })

	members, err := client.MemberList(t.Context())
	must(t, err)
	at := slices.IndexFunc(members.Members, func(m *pb.Member) bool { return m.Name == "node-1" })
	own := members.Members[at]
	eventually(t, "the member can be removed", func() bool { _, err := client.MemberRemove(t.Context(), own.ID); return err == nil })
	must(t, n.promise(t.Context(), "remove", framework.Undoing{Fault: "remove-member", Node: "node-1", Rejoin: own.PeerURLs}, urls, 200*time.Millisecond))
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
