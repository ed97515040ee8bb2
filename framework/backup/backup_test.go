package backup

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/etcdutl/v3/snapshot"
	"go.uber.org/zap"

	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/workload/client"
	"github.com/holdfast-ha/holdfast/framework/workload/etcdtest"
)

func TestVerify(t *testing.T) {
	t.Parallel()
	c := etcdtest.New(t, 1)
	file := filepath.Join(t.TempDir(), "snapshot")
	if _, err := Save(t.Context(), c, "node-1", file); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		bytes []byte
		says  string
	}{
		"cut short": {whole[:len(whole)-100], "truncated"},
		"changed":   {append(append([]byte{}, whole[:999]...), append([]byte{whole[999] ^ 1}, whole[1000:]...)...), "checksum"},
		"empty":     {nil, "truncated"},
	} {
		if err := os.WriteFile(file, test.bytes, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Verify(file); err == nil || !strings.Contains(err.Error(), test.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A member that does not answer is asked again until the time ends, which is not its slowness.
func TestSaveUnanswered(t *testing.T) {
	t.Parallel()
	c := etcdtest.New(t, 1)
	c.Stop(0)
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	file := filepath.Join(t.TempDir(), "snapshot")
	if _, err := Save(ctx, c, "node-1", file); err == nil || errors.Is(err, ErrCut) || ctx.Err() == nil {
		t.Errorf("%v; the time: %v", err, ctx.Err())
	}
	if _, err := os.Stat(file); !os.IsNotExist(err) {
		t.Errorf("a file is left: %v", err)
	}
}

// TestServing takes the first member that reads with a quorum.
func TestServing(t *testing.T) {
	t.Parallel()
	c := etcdtest.New(t, 3)
	names := []string{"node-1", "node-2", "node-3"}
	if node := Serving(t.Context(), c, names); node != "node-1" {
		t.Errorf("all answer: %q", node)
	}
	c.Stop(0)
	if node := Serving(t.Context(), c, names); node != "node-2" {
		t.Errorf("the first is stopped: %q", node)
	}
	c.Stop(2)
	if node := Serving(t.Context(), c, names[1:]); node != "node-2" {
		t.Errorf("no quorum: %q", node)
	}
	if node := Serving(t.Context(), c, nil); node != "" {
		t.Errorf("no member: %q", node)
	}
}

// operated is a member that records what is done with it.
type operated struct {
	framework.EtcdOperator
	hold                     time.Duration
	killed, restored, starts time.Time
}

func (o *operated) Kill(_ context.Context, _ framework.Component, hold time.Duration) error {
	o.killed, o.hold = time.Now(), hold
	return nil
}

func (o *operated) ReplaceEtcdData(context.Context, string) error {
	o.restored = time.Now()
	return nil
}

func (o *operated) EtcdPeer(context.Context) (framework.EtcdPeer, error) {
	return framework.EtcdPeer{Name: "node-1"}, nil
}

func (o *operated) Start(context.Context, framework.Component) error {
	o.starts = time.Now()
	return nil
}

// All members stay down together before the first one is restored, and the steps say so.
func TestRestorationDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, second := &operated{}, &operated{}
		members := []Member{{"node-1", first, first, first}, {"node-2", second, second, second}}
		var mu sync.Mutex
		var steps []string
		ctx := framework.WithSteps(t.Context(), func(s framework.Step) error {
			mu.Lock()
			defer mu.Unlock()
			steps = append(steps, s.Name)
			return nil
		})
		if err := (Restoration{Members: members, Down: 4 * time.Second, Hold: time.Minute}).replace(ctx, ""); err != nil {
			t.Fatal(err)
		}
		for _, o := range []*operated{first, second} {
			if o.restored.Sub(o.killed) < 4*time.Second || o.starts.Before(o.restored) || o.hold != 64*time.Second {
				t.Errorf("%+v", o)
			}
		}
		if want := []string{"stop etcd", "stop etcd", "leave etcd down", "restore etcd", "restore etcd", "start etcd", "start etcd"}; !slices.Equal(steps, want) {
			t.Errorf("steps: %q", steps)
		}
	})
}

// stuck is a member that can be neither stopped nor started.
type stuck struct{ operated }

var errStuck = errors.New("no power")

func (*stuck) Kill(context.Context, framework.Component, time.Duration) error { return errStuck }
func (*stuck) Start(context.Context, framework.Component) error               { return errStuck }

// A node that can be neither stopped nor started keeps no other member down, and no data are
// replaced.
func TestRestorationStartsAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, second, third := &operated{}, &stuck{}, &operated{}
		members := []Member{{"node-1", first, first, first}, {"node-2", second, second, second}, {"node-3", third, third, third}}
		err := Restoration{Members: members, Hold: time.Minute}.replace(t.Context(), "")
		if !errors.Is(err, errStuck) || first.starts.IsZero() || third.starts.IsZero() || !first.restored.IsZero() {
			t.Errorf("%v; %+v, %+v", err, first, third)
		}
	})
}

// No member is stopped for a snapshot from which no data can be made.
func TestRestorationRefuses(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "snapshot")
	if err := os.WriteFile(file, []byte("nonsense"), 0o600); err != nil {
		t.Fatal(err)
	}
	m := &stuck{}
	err := Restoration{Members: []Member{{"node-1", m, m, m}}, Snapshot: file, Peers: []framework.EtcdPeer{{Name: "node-1", URLs: []string{"https://10.0.0.1:2380"}}}}.Run(t.Context())
	if !errors.Is(err, framework.ErrNothingDone) || errors.Is(err, errStuck) || !strings.Contains(err.Error(), "failed to restore the snapshot for node-1") {
		t.Error(err)
	}
}

// A member is awaited for as long as a kubelet may wait before it starts one that exited often.
func TestUntil(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name   string
		serves time.Duration
		want   bool
	}{
		{"immediately", 0, true},
		{"after the longest back-off", 5*time.Minute + 30*time.Second, true},
		{"too late", 7 * time.Minute, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				err := until(t.Context(), func(context.Context) error {
					if time.Since(began) < tc.serves {
						return errors.New("connection refused")
					}
					return nil
				})
				if took := time.Since(began); (err == nil) != tc.want || took > serveLimit {
					t.Errorf("after %s: %v", took, err)
				}
			})
		})
	}
}

// silent is a cluster whose etcd members do not answer, but for those on some nodes.
type silent struct {
	framework.Cluster
	nodes   []framework.Node
	answers map[string]framework.EtcdAccess // a cluster of which the first member answers, by node
}

func (silent) Name() string { return "silent" }

func (c silent) Nodes() []framework.Node { return c.nodes }

func (c silent) EtcdConfig(node string) (clientv3.Config, error) {
	if answers := c.answers[node]; answers != nil {
		return answers.EtcdConfig("node-1")
	}
	return clientv3.Config{}, errors.New("the member on " + node + " is broken")
}

// mute is a node that can be restored.
type mute struct {
	framework.Node
	name string
	data *[]restoredData // what took the place of its data
}

// restoredData are the data of a member.
type restoredData struct {
	db       string
	revision int64
}

func (m mute) Name() string { return m.name }

func (mute) Components() []framework.Component { return []framework.Component{framework.Etcd} }

func (mute) Kill(context.Context, framework.Component, time.Duration) error { return nil }

func (mute) Start(context.Context, framework.Component) error { return nil }

func (mute) RejoinEtcd(context.Context, []framework.EtcdPeer) error { return errors.ErrUnsupported }

func (m mute) EtcdPeer(context.Context) (framework.EtcdPeer, error) {
	if m.name == "unreachable" {
		return framework.EtcdPeer{}, errors.New("no route")
	}
	return framework.EtcdPeer{Name: m.name, URLs: []string{"https://" + m.name + ":2380"}}, nil
}

func (m mute) ReplaceEtcdData(_ context.Context, dir string) error {
	if m.data == nil {
		return errors.New("far enough")
	}
	file := filepath.Join(dir, "member", "snap", "db")
	db, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	status, err := snapshot.NewV3(zap.NewNop()).Status(file)
	*m.data = append(*m.data, restoredData{string(db), status.Revision})
	return errors.Join(err, errors.New("far enough"))
}

// If no member answers that lists one for each node, the members are those of the nodes'
// configuration.
func TestRestoreWithoutMembers(t *testing.T) {
	t.Parallel()
	one, two, three, lost := etcdtest.New(t, 1), etcdtest.New(t, 2), etcdtest.New(t, 3), etcdtest.New(t, 3)
	lost.Stop(1)
	lost.Stop(2)
	file := filepath.Join(t.TempDir(), "snapshot")
	if _, err := Save(t.Context(), one, "node-1", file); err != nil {
		t.Fatal(err)
	}
	var data []restoredData
	first := mute{name: "node-1", data: &data}
	for name, test := range map[string]struct {
		second  framework.Node
		answers map[string]framework.EtcdAccess
		says    string
		peer    string // how the URLs of the restored members begin; empty if nothing was done
	}{
		"all report":                          {mute{name: "node-2"}, nil, "far enough", "https://node-"},
		"one lists both, and one does not":    {mute{name: "unreachable"}, map[string]framework.EtcdAccess{"node-1": two}, "no route", ""},
		"one lists both, and one is another":  {mute{name: "node-9"}, map[string]framework.EtcdAccess{"node-1": two}, "is called node-9", ""},
		"one does not":                        {mute{name: "unreachable"}, nil, "no route", ""},
		"two of one name":                     {mute{name: "node-1"}, nil, "two etcd members are called node-1", ""},
		"why none answers":                    {mute{name: "unreachable"}, nil, "the member on node-1 is broken", ""},
		"one started as a cluster by itself":  {mute{name: "node-2"}, map[string]framework.EtcdAccess{"node-1": one}, "far enough", "https://node-"},
		"so did one, and one does not report": {mute{name: "unreachable"}, map[string]framework.EtcdAccess{"node-1": one}, "etcd on node-1 has 1 members, and 2 nodes run etcd", ""},
		"so did one, and one lists both":      {mute{name: "node-2"}, map[string]framework.EtcdAccess{"node-1": one, "node-2": two}, "far enough", "http://127."},
		"one lists both":                      {mute{name: "node-2"}, map[string]framework.EtcdAccess{"node-1": two}, "far enough", "http://127."},
		"one lists another":                   {mute{name: "node-2"}, map[string]framework.EtcdAccess{"node-1": three}, "etcd has 3 members, and 2 nodes run etcd", ""},
		"one lists another, without a quorum": {mute{name: "node-2"}, map[string]framework.EtcdAccess{"node-1": lost}, "far enough", "https://node-"},
	} {
		data = nil
		began := time.Now()
		err := Restore(t.Context(), silent{nodes: []framework.Node{first, test.second}, answers: test.answers}, file)
		if err == nil || !strings.Contains(err.Error(), test.says) || errors.As(err, new(framework.Untouched)) != (test.peer == "") {
			t.Errorf("%s: %v", name, err)
		}
		if test.peer == "" {
			if len(data) > 0 {
				t.Errorf("%s: restored %+v", name, data)
			}
			continue
		}
		if len(data) != 1 || strings.Count(data[0].db, `"peerURLs":["`+test.peer) < 2 {
			t.Fatalf("%s: restored %d members, or others", name, len(data))
		}
		// The revision of silent members is unknown if none lists them.
		if reported := strings.HasPrefix(test.peer, "https"); (data[0].revision >= began.UnixNano()) != reported {
			t.Errorf("%s: the revision is %d", name, data[0].revision)
		}
	}
}

// unplugged has no power.
type unplugged struct{ mute }

func (unplugged) Powered(context.Context) (bool, error)         { return false, nil }
func (unplugged) PowerOn(context.Context) error                 { return nil }
func (unplugged) PowerOff(context.Context, time.Duration) error { return nil }

// No member is stopped if one cannot take part.
func TestRestoreWithoutPower(t *testing.T) {
	t.Parallel()
	c := silent{nodes: []framework.Node{mute{name: "node-1"}, unplugged{mute{name: "node-2"}}}}
	if err := Restore(t.Context(), c, "snapshot"); err == nil || !strings.Contains(err.Error(), "node node-2 has no power") || !errors.Is(err, framework.ErrNothingDone) {
		t.Error(err)
	}
}

// A snapshot is refused if it is of another cluster, and if a member that does not answer may have
// other data than those of the snapshot's cluster.
func TestCheckOwn(t *testing.T) {
	t.Parallel()
	member := func(system string) framework.EtcdAccess {
		c := etcdtest.New(t, 1)
		if system == "" {
			return c
		}
		etcd, err := client.NewEtcd(c, "node-1")
		if err != nil {
			t.Fatal(err)
		}
		defer etcd.Close()
		if _, err := etcd.Put(t.Context(), systemKey, system); err != nil {
			t.Fatal(err)
		}
		return c
	}
	own, other, empty := member("kube-system 11111111-2222-3333-4444-555555555555"), member("kube-system 99999999-2222-3333-4444-555555555555"), member("")
	encrypted := member("k8s:enc:aescbc:v1:key1:0f3a")
	file := filepath.Join(t.TempDir(), "snapshot")
	if _, err := Save(t.Context(), own, "node-1", file); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		answers map[string]framework.EtcdAccess
		says    string // empty if the snapshot is accepted
	}{
		"of this cluster":                  {map[string]framework.EtcdAccess{"node-1": own, "node-2": own}, ""},
		"of another one":                   {map[string]framework.EtcdAccess{"node-1": other, "node-2": other}, "the snapshot is from another cluster"},
		"one member is silent":             {map[string]framework.EtcdAccess{"node-2": own}, ""},
		"of another one, one is silent":    {map[string]framework.EtcdAccess{"node-2": other}, "the snapshot is from another cluster"},
		"one has lost its data":            {map[string]framework.EtcdAccess{"node-1": empty, "node-2": own}, ""},
		"all have lost their data":         {map[string]framework.EtcdAccess{"node-1": empty, "node-2": empty}, ""},
		"all are silent":                   {nil, "the member on node-1 is broken"},
		"one is silent, one lost its data": {map[string]framework.EtcdAccess{"node-1": empty}, "the member on node-2 is broken"},
		"encrypted":                        {map[string]framework.EtcdAccess{"node-1": encrypted, "node-2": encrypted}, "it may be encrypted"},
	} {
		err := CheckOwn(t.Context(), silent{nodes: []framework.Node{mute{name: "node-1"}, mute{name: "node-2"}}, answers: test.answers}, file)
		switch {
		case test.says == "" && err != nil:
			t.Errorf("%s: %v", name, err)
		case test.says != "" && (err == nil || !strings.Contains(err.Error(), test.says) || !strings.Contains(err.Error(), "--foreign")):
			t.Errorf("%s: %v", name, err)
		}
	}
}
