package engine

import (
	"maps"
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/record"
	"github.com/holdfast-ha/holdfast/framework/record/recordtest"
)

// bootedNode is a node that reports when it started.
type bootedNode struct {
	framework.Node
	name string
	at   time.Time
}

func (n bootedNode) Name() string      { return n.name }
func (n bootedNode) Booted() time.Time { return n.at }

type bootedCluster struct {
	plainCluster
	nodes []framework.Node
}

func (c bootedCluster) Nodes() []framework.Node { return c.nodes }

// TestBooted: only starts after the loss of power count, of the nodes that lost it.
func TestBooted(t *testing.T) {
	w, _ := recordtest.New(t)
	defer w.Close(record.End{})
	off := time.Now()
	r := &run{w: w, cluster: bootedCluster{nodes: []framework.Node{
		bootedNode{name: "a", at: off.Add(time.Minute)}, bootedNode{name: "b", at: off.Add(-time.Minute)}, bootedNode{name: "unknown"},
		bootedNode{name: "another", at: off.Add(time.Minute)}, struct{ framework.Node }{bootedNode{name: "silent"}},
	}}}
	got := r.booted([]string{"a", "b", "unknown", "silent"}, off)
	if want := map[string]record.Nanos{"a": w.Since(off.Add(time.Minute))}; !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}
