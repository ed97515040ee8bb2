package agent

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	etcdsnapshot "go.etcd.io/etcd/etcdutl/v3/snapshot"
	"go.uber.org/zap"
	"golang.org/x/sys/unix"

	"github.com/holdfast-ha/holdfast/clusters/etcddata"
	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/workload/etcdtest"
)

func etcdNode(t *testing.T) (n *testNode, db string) {
	t.Helper()
	n = newNode(t, framework.Etcd)
	n.config.EtcdData = filepath.Join(t.TempDir(), "etcd")
	mountTmpfs(t, n.config.EtcdData, "256m") // as users have it; a restored member allocates two WAL files of 64 MB
	db = filepath.Join(n.config.EtcdData, "member", "snap", "db")
	mkdir(t, filepath.Dir(db))
	write(t, db, "data")
	n.up()
	n.runs(framework.Etcd)
	return n, db
}

func TestRejoinEtcd(t *testing.T) {
	t.Parallel()
	n, db := etcdNode(t)
	before := n.process(framework.Etcd)
	members := []framework.EtcdPeer{{Name: "node-2", URLs: []string{"https://10.0.0.2:2380"}}, {Name: "node-1", URLs: []string{"https://10.0.0.1:2380"}}}
	must(t, n.RejoinEtcd(t.Context(), members))
	if p := n.runs(framework.Etcd); p.PID == before.PID || p.Held {
		t.Errorf("the member is %+v, was %+v", p, before)
	}
	if exists(db) {
		t.Error("the data are still there")
	}
	args, err := manifest(n.config.Components[0].Manifest).arguments()
	must(t, err)
	if args["initial-cluster"] != "node-2=https://10.0.0.2:2380,node-1=https://10.0.0.1:2380" || args["initial-cluster-state"] != "existing" || args["name"] != "node-1" {
		t.Errorf("the member is started with %v", args)
	}
	if p, err := n.EtcdPeer(t.Context()); err != nil || p.Name != "node-1" || !slices.Equal(p.URLs, []string{"https://10.0.0.1:2380"}) {
		t.Errorf("its member is %+v, %v", p, err)
	}
	if err := n.RejoinEtcd(t.Context(), nil); err == nil {
		t.Error("it joins a cluster without members")
	}
}

// TestRejoinRefused: a member that its supervisor always starts with the same arguments could not
// join again, and keeps its data.
func TestRejoinRefused(t *testing.T) {
	t.Parallel()
	for name, one := range map[string]Component{
		"a process": {Name: framework.Etcd, Command: "etcd-of-a-supervisor"},
		"a unit":    {Name: framework.Etcd, Command: "etcd-of-a-unit", Unit: "etcd.service"},
	} {
		n := newNode(t)
		n.config.EtcdData, n.config.Components = filepath.Join(t.TempDir(), "etcd"), []Component{one}
		db := filepath.Join(n.config.EtcdData, "member", "snap", "db")
		mkdir(t, filepath.Dir(db))
		write(t, db, "data")
		n.up()
		refused(t, n.RejoinEtcd(t.Context(), []framework.EtcdPeer{{Name: "node-1", URLs: []string{"https://10.0.0.1:2380"}}}))
		if p := n.process(framework.Etcd); !exists(db) || p.Held {
			t.Errorf("%s: the data are there: %t; it is %+v", name, exists(db), p)
		}
	}
}

// TestRejoinWaits rejoins while the kubelet is slow to read manifests, and starts the old
// member in that time: its data stay until that is over.
func TestRejoinWaits(t *testing.T) {
	t.Parallel()
	n, db := etcdNode(t)
	m := manifest(n.config.Components[0].Manifest)
	before, err := os.ReadFile(m.path())
	must(t, err)
	old := n.shim()
	n.kubelet.deaf.Store(true)
	starts := n.kubelet.starts.Load()
	done := make(chan error, 1)
	go func() {
		done <- n.RejoinEtcd(t.Context(), []framework.EtcdPeer{{Name: "node-1", URLs: []string{"https://10.0.0.1:2380"}}})
	}()
	eventually(t, "the member is started as it was", func() bool { return n.kubelet.starts.Load() > starts+1 })
	b, err := os.ReadFile(m.aside().path())
	if err != nil || string(b) != string(before) || exists(m.path()) || !exists(db) {
		t.Errorf("before its pod has ended: data %v, manifest %q, %v", exists(db), b, err)
	}
	select {
	case err := <-done:
		t.Fatalf("the pod has not ended, and the answer is %v", err)
	default:
	}
	n.kubelet.deaf.Store(false)
	must(t, <-done)
	n.runs(framework.Etcd)
	if exists(db) || !old.over() || n.shim() == old || exists(filepath.Dir(m.aside().path())) {
		t.Error("the member does not run in a new pod without data")
	}
}

// TestRejoinDeadMan kills the agent while the manifest is away. The member comes back
// as it was.
func TestRejoinDeadMan(t *testing.T) {
	t.Parallel()
	n, db := etcdNode(t)
	m := manifest(n.config.Components[0].Manifest)
	n.kubelet.deaf.Store(true)
	go func() {
		_ = n.RejoinEtcd(t.Context(), []framework.EtcdPeer{{Name: "node-1", URLs: []string{"https://10.0.0.1:2380"}}})
	}()
	eventually(t, "the manifest is away", func() bool { return exists(m.aside().path()) })
	n.kill()
	n.restarted() // a hold would last a minute
	n.kubelet.deaf.Store(false)
	n.up()
	n.runs(framework.Etcd)
	if !exists(db) || !exists(m.path()) || exists(m.aside().path()) {
		t.Error("the member is not as it was")
	}
}

// TestWipeWhileHoldEnds ends a hold in the middle of a change of the data, while another
// process starts the member. Neither takes effect before the change.
func TestWipeWhileHoldEnds(t *testing.T) {
	t.Parallel()
	n, db := etcdNode(t)
	starts := n.kubelet.starts.Load()
	must(t, n.Kill(t.Context(), framework.Etcd, settleTime*3/4))
	handle, err := n.WipeDisk(t.Context(), time.Hour)
	must(t, err)
	if exists(db) {
		t.Error("the data are there")
	}
	// Twice where it takes longer to begin than the hold lasts.
	if p := n.runs(framework.Etcd); p.Held || n.kubelet.starts.Load() > starts+2 {
		t.Errorf("the hold being over, it is %+v; the member was started %d times", p, n.kubelet.starts.Load()-starts)
	}

	must(t, n.Kill(t.Context(), framework.Etcd, time.Hour))
	starts = n.kubelet.starts.Load()
	done := make(chan error, 1)
	go func() { done <- n.RestoreDisk(t.Context(), handle) }()
	time.Sleep(settleTime / 4) // it has begun, and is not over
	must(t, n.Start(t.Context(), framework.Etcd))
	must(t, <-done)
	if !exists(db) || n.kubelet.starts.Load() > starts+1 {
		t.Errorf("the data are back: %v; the member was started %d times", exists(db), n.kubelet.starts.Load()-starts)
	}
	n.runs(framework.Etcd)
}

func TestReplaceEtcdData(t *testing.T) {
	t.Parallel()
	n, db := etcdNode(t)
	snapshot := filepath.Join(t.TempDir(), "snapshot")
	// As a volume of its own is, from which nothing can be renamed to another one.
	must(t, unix.Mount(n.config.EtcdData, n.config.EtcdData, "", unix.MS_BIND, ""))
	t.Cleanup(func() { must(t, unix.Unmount(n.config.EtcdData, unix.MNT_DETACH)) })
	restored := filepath.Join(n.config.EtcdData, ".holdfast-restored")
	revision := takeSnapshot(t, snapshot)
	data := filepath.Join(t.TempDir(), "data")
	must(t, etcdsnapshot.NewV3(zap.NewNop()).Restore(etcdsnapshot.RestoreConfig{SnapshotPath: snapshot, Name: "node-1", OutputDataDir: data,
		PeerURLs: []string{"https://10.0.0.1:2380"}, InitialCluster: "node-1=https://10.0.0.1:2380", InitialClusterToken: "restored"}))
	if err := n.ReplaceEtcdData(t.Context(), data); err == nil || !strings.Contains(err.Error(), "not held down") {
		t.Errorf("replacing the data of a member that runs: %v", err)
	}
	must(t, n.Kill(t.Context(), framework.Etcd, time.Hour))
	var archive bytes.Buffer
	must(t, etcddata.Pack(&archive, filepath.Dir(n.config.EtcdData)))
	archive.Truncate(archive.Len() / 2)
	if _, err := n.http.Send(t.Context(), http.MethodPut, "data", &archive); err == nil || !strings.Contains(err.Error(), "failed to receive the data") {
		t.Errorf("half of the data: %v", err)
	}
	if !exists(db) || exists(restored) {
		t.Errorf("half of other data: the member's are there: %t; the others are left on the node: %t", exists(db), exists(restored))
	}

	if err := n.ReplaceEtcdData(t.Context(), filepath.Join(data, "nowhere")); err == nil || !strings.Contains(err.Error(), "no such file") {
		t.Errorf("data that are not there: %v", err)
	}
	// The hold ends while the data arrive.
	r, w := io.Pipe()
	arrived := make(chan error, 1)
	go func() {
		_, err := n.http.Send(t.Context(), http.MethodPut, "data", r)
		arrived <- err
	}()
	var whole bytes.Buffer
	must(t, etcddata.Pack(&whole, data))
	_, err := w.Write(whole.Next(whole.Len() / 2))
	must(t, err)
	eventually(t, "the data arrive", func() bool { return exists(restored) })
	must(t, n.Start(t.Context(), framework.Etcd))
	before := n.runs(framework.Etcd)
	_, _ = whole.WriteTo(w)
	must(t, w.Close())
	if err := <-arrived; err == nil || !strings.Contains(err.Error(), "not held down") {
		t.Errorf("the hold ended while the data arrived: %v", err)
	}
	if p := n.runs(framework.Etcd); p.PID != before.PID || exists(restored) {
		t.Errorf("the member is %+v, and was %+v; the other data are left: %t", p, before, exists(restored))
	}
	must(t, n.Kill(t.Context(), framework.Etcd, time.Hour))
	must(t, n.ReplaceEtcdData(t.Context(), data))
	status, err := etcdsnapshot.NewV3(zap.NewNop()).Status(db)
	if err != nil || status.Revision != revision {
		t.Errorf("the data restored are %+v, want revision %d: %v", status, revision, err)
	}
	if info, err := os.Stat(db); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the database, with all Secrets, has mode %s: %v", info.Mode(), err)
	}
	if p := n.process(framework.Etcd); p.PID != 0 || !p.Held {
		t.Errorf("it is not held down any more: %+v", p)
	}
	must(t, n.Start(t.Context(), framework.Etcd))
	n.runs(framework.Etcd)
	if exists(restored) {
		t.Error("a copy of the data is left on the node")
	}

	// As an agent leaves it that is killed before the data have taken their place.
	n.kill()
	mkdir(t, filepath.Join(restored, "member", "snap"))
	point, err := mountPoint(restored)
	must(t, err)
	n.saves("restoringEtcd", restoringState{restored, point})
	n.up()
	if exists(restored) || !exists(db) {
		t.Errorf("the next agent: a copy of the data is left: %t; the member's data are there: %t", exists(restored), exists(db))
	}
}

// takeSnapshot writes one of a real member to a file and returns its revision.
func takeSnapshot(t *testing.T, file string) int64 {
	t.Helper()
	config, err := etcdtest.New(t, 1).EtcdConfig("node-1")
	must(t, err)
	config.DialTimeout = patience
	client, err := clientv3.New(config)
	must(t, err)
	defer client.Close()
	put, err := client.Put(t.Context(), "key", "value")
	must(t, err)
	r, err := client.Snapshot(t.Context())
	must(t, err)
	defer r.Close()
	b, err := io.ReadAll(r)
	must(t, err)
	write(t, file, string(b))
	return put.Header.Revision
}

func TestWipeDisk(t *testing.T) {
	t.Parallel()
	n, db := etcdNode(t)
	had, err := n.ListDisk(t.Context())
	if err != nil || !slices.Equal(had, []string{"member/snap/db"}) {
		t.Fatalf("its files are %v, %v", had, err)
	}
	// As the fault does: it is held down across the change.
	must(t, n.Kill(t.Context(), framework.Etcd, time.Hour))
	handle, err := n.WipeDisk(t.Context(), time.Hour)
	must(t, err)
	if again, err := n.WipeDisk(t.Context(), time.Hour); again != "" || err != nil || handle == "" {
		t.Errorf("wiped twice: %q, then %q, %v", handle, again, err)
	}
	if files, err := n.ListDisk(t.Context()); err != nil || len(files) > 0 {
		t.Errorf("wiped, its files are %v, %v", files, err)
	}
	if p := n.process(framework.Etcd); p.PID != 0 || !p.Held {
		t.Errorf("it is not held down any more: %+v", p)
	}
	must(t, n.Start(t.Context(), framework.Etcd))
	n.runs(framework.Etcd)
	mkdir(t, filepath.Dir(db))
	write(t, db, "new")

	must(t, n.RestoreDisk(t.Context(), "another"))
	before := n.process(framework.Etcd)
	must(t, n.RestoreDisk(t.Context(), handle))
	must(t, n.RestoreDisk(t.Context(), handle))
	if b, err := os.ReadFile(db); err != nil || string(b) != "data" {
		t.Errorf("restored, the data are %q, %v", b, err)
	}
	if p := n.runs(framework.Etcd); p.PID == before.PID {
		t.Error("the data came back under a member that runs")
	}
}

// TestWipeUnmounted: while the volume of the data is not mounted, as when a node starts, the data that a
// fault took away are not forgotten. Data of unknown origin are not deleted, and no other change of
// the member's data comes in between.
func TestWipeUnmounted(t *testing.T) {
	t.Parallel()
	n, db := etcdNode(t)
	handle, err := n.WipeDisk(t.Context(), time.Hour)
	must(t, err)
	members := []framework.EtcdPeer{{Name: "node-1", URLs: []string{"https://10.0.0.1:2380"}}}
	if err := n.RejoinEtcd(t.Context(), members); !errors.Is(err, framework.ErrNothingDone) {
		t.Errorf("rejoining while the data are away: %v", err)
	}
	elsewhere := t.TempDir()
	must(t, unix.Mount(n.config.EtcdData, elsewhere, "", unix.MS_MOVE, ""))
	if err := n.RestoreDisk(t.Context(), handle); err == nil || !strings.Contains(err.Error(), "is not mounted") {
		t.Errorf("restored without the volume: %v", err)
	}
	must(t, unix.Mount(elsewhere, n.config.EtcdData, "", unix.MS_MOVE, ""))
	eventually(t, "the data are back", func() bool { return exists(db) })
	n.runs(framework.Etcd)

	mkdir(t, filepath.Join(n.config.EtcdData, ".holdfast-aside"))
	if _, err := n.WipeDisk(t.Context(), time.Hour); err == nil || !strings.Contains(err.Error(), "moved aside: move it back to member, or delete it") || strings.Contains(err.Error(), "%!") || !exists(db) {
		t.Errorf("wiped over data of unknown origin: %v; the member's data are there: %v", err, exists(db))
	}
}

// TestWipeDeadMan ends the agent while the data are away.
func TestWipeDeadMan(t *testing.T) {
	t.Parallel()
	n, db := etcdNode(t)
	_, err := n.WipeDisk(t.Context(), n.beyond(1500*time.Millisecond))
	must(t, err)
	n.kill()
	if exists(db) {
		t.Error("the data are there")
	}
	n.up()
	eventually(t, "the data are back", func() bool { return exists(db) })
	n.runs(framework.Etcd)

	// A restart of the node, before which it was time.
	_, err = n.WipeDisk(t.Context(), 200*time.Millisecond)
	must(t, err)
	n.kill()
	n.restarted()
	time.Sleep(200 * time.Millisecond)
	n.up()
	eventually(t, "the data are back", func() bool { return exists(db) })
}

// TestWipeOfRestartedNode: with a leash, the data are in place when the agent of a node that has
// restarted is ready, so that the member starts on them. A member that runs already, since something
// started it before, is ended first.
func TestWipeOfRestartedNode(t *testing.T) {
	t.Parallel()
	n, db := etcdNode(t)
	n.kill()
	n.config.Leash = time.Hour
	n.up()
	_, err := n.WipeDisk(t.Context(), time.Hour)
	must(t, err)
	n.kill()
	n.up()
	if exists(db) {
		t.Error("the restart of an agent alone put the data back")
	}
	before := n.runs(framework.Etcd)
	n.kill()
	n.restarted()
	n.up()
	eventually(t, "the data are back", func() bool { return exists(db) })
	if p := n.runs(framework.Etcd); p.PID == before.PID {
		t.Error("the data came back under a member that runs")
	}
	if ago, err := n.Lapsed(t.Context()); err != nil || ago == 0 {
		t.Errorf("healed early %s ago, %v", ago, err)
	}
}

// TestWipeBeforeReady does the same without a process: the data are back when the agent has started,
// and the space of their volume is free.
func TestWipeBeforeReady(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name  string
		leash time.Duration
		boot  string
		want  bool
	}{
		{"a node that has restarted", time.Hour, "another", true},
		{"without a leash", 0, "another", false},
		{"the restart of an agent", time.Hour, "", false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			data := filepath.Join(dir, "etcd")
			mkdir(t, filepath.Join(data, ".holdfast-aside", "snap"))
			point, err := mountPoint(data)
			must(t, err)
			now, err := boot()
			must(t, err)
			full := filepath.Join(data, fillName)
			write(t, full, "")
			st := state{Boot: cmp.Or(tc.boot, now), Wiped: &wipedState{Handle: "h", Until: time.Now().Add(time.Hour), Mount: point},
				Filled: &filledState{Handle: "f", Path: full, Mount: point, Until: time.Now().Add(time.Hour)}}
			b, err := json.Marshal(st)
			must(t, err)
			mkdir(t, filepath.Join(dir, "state"))
			write(t, filepath.Join(dir, "state", "state.json"), string(b))
			a, err := newAgent(Config{Socket: filepath.Join(dir, "run", "agent.sock"), Dir: filepath.Join(dir, "state"), EtcdData: data, Leash: tc.leash,
				Components: []Component{{Name: framework.Etcd, Command: "etcd-" + filepath.Base(dir) + "-of-no-one"}}})
			must(t, err)
			defer a.close()
			a.etcd.mu.Lock()
			a.etcd.timers.StopAll()
			a.etcd.mu.Unlock()
			a.filler.mu.Lock()
			left := a.filler.timers.Len()
			a.filler.timers.StopAll()
			a.filler.mu.Unlock()
			if exists(full) == tc.want || (left > 0) == tc.want || (a.filler.filled() == nil) != tc.want {
				t.Errorf("the volume is full: %t, %d faults are left on it; free: want %t", exists(full), left, tc.want)
			}
			if got := exists(filepath.Join(data, "member", "snap")); got != tc.want {
				t.Errorf("the data are back: %t, want %t", got, tc.want)
			}
		})
	}
}

// TestResumeDuringChange: a watcher that takes over while the member's data are changed, because the
// node has just started, leaves the member down until that is over.
func TestResumeDuringChange(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	data := filepath.Join(dir, "etcd")
	mkdir(t, data)
	a, err := newAgent(Config{Socket: filepath.Join(dir, "run", "agent.sock"), Dir: filepath.Join(dir, "state"), EtcdData: data,
		Components: []Component{{Name: framework.Etcd, Command: "etcd-" + filepath.Base(dir) + "-of-no-one"}}})
	must(t, err)
	defer a.close()
	w := a.watchers[framework.Etcd]
	begun, end := make(chan struct{}), make(chan struct{})
	changed, resumed := make(chan error, 1), make(chan struct{})
	go func() {
		changed <- a.etcd.whileDown(context.Background(), leaveDown, func() error { close(begun); <-end; return nil })
	}()
	select {
	case <-begun:
	case err := <-changed:
		t.Fatalf("the change has not begun: %v", err)
	}
	go func() { w.resume(context.Background(), true); close(resumed) }()
	select {
	case <-resumed:
		t.Error("the watcher has taken over before the end of the change")
	case <-time.After(300 * time.Millisecond):
	}
	if !w.held() {
		t.Error("the hold ended during the change")
	}
	close(end)
	must(t, <-changed)
	<-resumed
	if w.held() {
		t.Error("the member is held down after the change")
	}
}
