package engine

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/record/recordtest"
	"github.com/holdfast-ha/holdfast/framework/workload/apitest"
)

// talker is a node that reports its connections.
type talker struct {
	framework.Node
	address netip.Addr
	stalled func() []netip.Addr
}

func (n talker) Address() netip.Addr { return n.address }

func (n talker) Stalled(context.Context) ([]netip.Addr, error) { return n.stalled(), nil }

type talkers struct {
	framework.Cluster
	nodes []framework.Node
}

func (c talkers) Nodes() []framework.Node { return c.nodes }

func TestReconnect(t *testing.T) {
	t.Parallel()
	inner := apitest.New(t, 3)
	address := func(i int) netip.Addr { return netip.AddrFrom4([4]byte{10, 0, 0, byte(i)}) }
	var lines []string
	w, read := recordtest.New(t)
	r := &run{w: w, options: Options{Progress: func(l string) { lines = append(lines, l) }}}
	connect := func(stalled func() []netip.Addr) {
		lines = nil
		var nodes []framework.Node
		for i, n := range inner.Nodes() {
			tell := func() []netip.Addr { return nil }
			if i == 1 {
				tell = stalled
			}
			nodes = append(nodes, talker{n, address(i), tell})
		}
		r.cluster = talkers{inner, nodes}
	}

	reconnect := func(ago time.Duration) {
		t.Helper()
		if err := r.reconnect(t.Context(), time.Now().Add(-ago))(); err != nil {
			t.Error(err)
		}
	}

	// The address of no node, and the node's own, are nothing to wait for.
	connect(func() []netip.Addr { return []netip.Addr{netip.MustParseAddr("10.1.1.1"), address(1)} })
	reconnect(0)
	if len(lines) > 0 {
		t.Errorf("waited: %q", lines)
	}

	looks := 0
	connect(func() []netip.Addr {
		if looks++; looks > 3 { // one of them only for the message
			return nil
		}
		return []netip.Addr{address(2)}
	})
	reconnect(0)
	if said := strings.Join(lines, "\n"); !strings.Contains(said, "waiting until TCP retransmits: node-2 to node-3") {
		t.Errorf("said %q", said)
	}

	connect(func() []netip.Addr { return []netip.Addr{address(0)} })
	reconnect(longestRecovery)
	if !slices.ContainsFunc(lines, func(l string) bool {
		return strings.Contains(l, "TCP has still not retransmitted ") && strings.HasSuffix(l, " after the healing: node-2 to node-1")
	}) {
		t.Errorf("said %q", lines)
	}

	// Nothing is recorded of nodes that report nothing.
	r.cluster = inner
	reconnect(0)

	run := read()
	var got []string
	for _, s := range run.Steadies {
		got = append(got, fmt.Sprintf("%s %s %t %q", s.V.Phase, s.V.Part, s.V.OK, s.V.Problems))
	}
	want := []string{
		`part connections between nodes true []`, `part connections between nodes true []`,
		`part connections between nodes false ["node-2 to node-1"]`,
	}
	if !slices.Equal(got, want) {
		t.Errorf("recorded %q", got)
	}
	if took := run.Steadies[1].V.Took; took < 2*conditionPause {
		t.Errorf("two looks more took %s", took)
	}
}
