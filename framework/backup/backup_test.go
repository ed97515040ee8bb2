package backup

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-ha/holdfast/framework"
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
		"cut short": {whole[:len(whole)-100], "cut short"},
		"changed":   {append(append([]byte{}, whole[:999]...), append([]byte{whole[999] ^ 1}, whole[1000:]...)...), "checksum"},
		"empty":     {nil, "cut short"},
	} {
		if err := os.WriteFile(file, test.bytes, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Verify(file); err == nil || !strings.Contains(err.Error(), test.says) {
			t.Errorf("%s: %v", name, err)
		}
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

func (o *operated) RestoreEtcd(context.Context, string, []framework.EtcdPeer, uint64) error {
	o.restored = time.Now()
	return nil
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
		if err := (Restoration{Members: members, Down: 4 * time.Second, Hold: time.Minute}).Run(ctx); err != nil {
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
