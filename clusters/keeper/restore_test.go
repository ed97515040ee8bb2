package keeper

import (
	"context"
	"errors"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/backup"
	"github.com/holdfast-ha/holdfast/framework/workload/etcdtest"
)

// silentCluster is a cluster whose only etcd member does not answer.
type silentCluster struct {
	*standInCluster
	node *silentNode
}

func (c silentCluster) Nodes() []framework.Node { return []framework.Node{c.node} }

func (silentCluster) EtcdConfig(string) (clientv3.Config, error) {
	return clientv3.Config{}, errors.New("it is frozen")
}

// silentNode records what is done with its member's data.
type silentNode struct{ restored bool }

func (*silentNode) Name() string        { return "one" }
func (*silentNode) Address() netip.Addr { return netip.Addr{} }

func (*silentNode) Components() []framework.Component {
	return []framework.Component{framework.Etcd}
}

func (*silentNode) Kill(context.Context, framework.Component, time.Duration) error { return nil }

func (*silentNode) Start(context.Context, framework.Component) error { return nil }

func (*silentNode) RejoinEtcd(context.Context, []framework.EtcdPeer) error {
	return errors.ErrUnsupported
}

func (*silentNode) EtcdPeer(context.Context) (framework.EtcdPeer, error) {
	return framework.EtcdPeer{Name: "one", URLs: []string{"https://one:2380"}}, nil
}

func (n *silentNode) ReplaceEtcdData(context.Context, string) error {
	n.restored = true
	return errors.New("far enough")
}

// While no member answers, data that are intact are not replaced by those of a snapshot that may
// be of another cluster, unless that is asked for.
func TestRestoreUnchecked(t *testing.T) {
	file := filepath.Join(t.TempDir(), "snapshot")
	if _, err := backup.Save(t.Context(), etcdtest.New(t, 1), "node-1", file); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		r        ChangeRequest
		says     string
		restored bool
	}{
		{ChangeRequest{Restore: file, Check: true}, "it is frozen", false},
		{ChangeRequest{Restore: file}, "it is frozen", false},
		{ChangeRequest{Restore: file, Foreign: true}, "far enough", true},
	} {
		n := &silentNode{}
		refused, err := (&server{cluster: silentCluster{&standInCluster{name: "silent"}, n}}).change(t.Context(), tc.r)
		if err == nil || !strings.Contains(err.Error(), tc.says) || !strings.Contains(err.Error(), "--foreign") || refused == tc.restored || n.restored != tc.restored {
			t.Errorf("%+v: refused %t, restored %t: %v", tc.r, refused, n.restored, err)
		}
	}
}
