package engine

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
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

func (n talker) Connections(context.Context, []netip.Addr) (all []framework.Connection, err error) {
	for _, peer := range n.stalled() {
		all = append(all, framework.Connection{Peer: netip.AddrPortFrom(peer, 2380), Established: true, Stalled: true})
	}
	return all, nil
}

type talkers struct {
	framework.Cluster
	nodes []framework.Node
}

func (c talkers) Nodes() []framework.Node { return c.nodes }

func TestReconnect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := apitest.NewInMemory(t, 3)
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

		// The node's own address is nothing to wait for.
		connect(func() []netip.Addr { return []netip.Addr{address(1)} })
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
		if said := strings.Join(lines, "\n"); !strings.Contains(said, "waiting for connections: node-2 to node-3") {
			t.Errorf("said %q", said)
		}

		connect(func() []netip.Addr { return []netip.Addr{address(0)} })
		reconnect(longestRecovery)
		if !slices.ContainsFunc(lines, func(l string) bool {
			return strings.Contains(l, "connections were not back ") && strings.HasSuffix(l, " after the healing: node-2 to node-1")
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
	})
}

// changing is a node whose connections change.
type changing struct {
	framework.Node
	address netip.Addr
	has     func() ([]framework.Connection, error)
}

func (n changing) Address() netip.Addr { return n.address }

func (n changing) Connections(context.Context, []netip.Addr) ([]framework.Connection, error) {
	return n.has()
}

// TestReconnectPeers: connections are back once every node says so that ever reported them, and each
// member is connected to those that it was connected to.
func TestReconnectPeers(t *testing.T) {
	addresses := []netip.Addr{netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2")}
	to := func(peer int, stalled bool) []framework.Connection {
		return []framework.Connection{{Peer: netip.AddrPortFrom(addresses[peer], 2380), Established: true, Stalled: stalled}}
	}
	opening := []framework.Connection{{Peer: netip.AddrPortFrom(addresses[1], 2380)}}
	silent := errors.New("no answer")
	for _, tc := range []struct {
		name          string
		first, second func(time.Duration) ([]framework.Connection, error) // at a time after the healing
		took          time.Duration                                       // at least
		want, says    string
	}{
		{name: "connected", want: "true []"},
		{name: "not connected for a while", took: 7 * time.Second, want: "true []", says: "waiting for connections: node-1 to node-2 (not connected)",
			first: func(d time.Duration) ([]framework.Connection, error) {
				if d < 7*time.Second {
					return opening, nil
				}
				return to(1, false), nil
			}},
		{name: "not connected any more", took: longestRecovery, want: `false ["node-1 to node-2 (not connected)"]`, says: "after the healing: node-1 to node-2 (not connected)",
			first: func(time.Duration) ([]framework.Connection, error) { return nil, nil }},
		{name: "silent for a while", took: 5 * time.Second, want: "true []",
			second: func(d time.Duration) ([]framework.Connection, error) {
				if d < 5*time.Second {
					return nil, silent
				}
				return to(0, false), nil
			}},
		{name: "silent from then on", says: "not every node reports its connections any more",
			second: func(time.Duration) ([]framework.Connection, error) { return nil, silent }},
		{name: "silent in the end", says: "not every node reports its connections any more",
			second: func(d time.Duration) ([]framework.Connection, error) {
				if d == 0 {
					return to(0, false), nil
				}
				return nil, silent
			}},
		{name: "one is silent, and the other one waits", took: longestRecovery, want: `false ["node-1 to node-2"]`,
			first:  func(time.Duration) ([]framework.Connection, error) { return to(1, true), nil },
			second: func(time.Duration) ([]framework.Connection, error) { return nil, silent }},
		{name: "all are silent", says: "not every node reports its connections any more",
			first:  func(time.Duration) ([]framework.Connection, error) { return nil, silent },
			second: func(time.Duration) ([]framework.Connection, error) { return nil, silent }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				inner := apitest.NewInMemory(t, 2)
				var said []string
				w, read := recordtest.New(t)
				r := &run{w: w, options: Options{Progress: func(l string) { said = append(said, l) }}}
				healed := time.Time{}
				node := func(i int, later func(time.Duration) ([]framework.Connection, error)) framework.Node {
					return changing{inner.Nodes()[i], addresses[i], func() ([]framework.Connection, error) {
						if healed.IsZero() || later == nil {
							return to(1-i, false), nil
						}
						return later(time.Since(healed))
					}}
				}
				r.cluster = talkers{inner, []framework.Node{node(0, tc.first), node(1, tc.second)}}
				r.lookConnected(t.Context())
				healed = time.Now()
				settled := r.reconnect(t.Context(), healed)
				synctest.Wait()
				if err := settled(); err != nil {
					t.Fatal(err)
				}
				got, took := "", time.Duration(0)
				for _, s := range read().Steadies {
					got, took = fmt.Sprintf("%t %q", s.V.OK, s.V.Problems), s.V.Took
				}
				if got != tc.want || took < tc.took || took > tc.took+5*time.Second || !strings.Contains(strings.Join(said, "\n"), tc.says) {
					t.Errorf("recorded %s after %s (want %s after %s), said %q", got, took, tc.want, tc.took, said)
				}
			})
		})
	}
}

// reporter is a node with these connections.
type reporter struct {
	framework.Node
	address netip.Addr
	has     []framework.Connection
	problem error
}

func (n reporter) Address() netip.Addr { return n.address }

func (n reporter) Connections(context.Context, []netip.Addr) ([]framework.Connection, error) {
	return n.has, n.problem
}

// TestConnected: a connection that one end knows alone is half-open.
func TestConnected(t *testing.T) {
	t.Parallel()
	first, second := netip.MustParseAddrPort("10.0.0.1:40000"), netip.MustParseAddrPort("10.0.0.2:2380")
	reconnected := netip.MustParseAddrPort("10.0.0.1:40001")
	open := func(local, peer netip.AddrPort) framework.Connection {
		return framework.Connection{Local: local, Peer: peer, Established: true}
	}
	half := "half-open connections: node-1 to node-2"
	for name, tc := range map[string]struct {
		first, second []framework.Connection
		problem       error // of the second
		want          string
	}{
		"none":           {},
		"both ends":      {first: []framework.Connection{open(first, second)}, second: []framework.Connection{open(second, first)}},
		"one end":        {first: []framework.Connection{open(first, second)}, want: half},
		"another beside": {first: []framework.Connection{open(first, second), open(reconnected, second)}, second: []framework.Connection{open(second, reconnected)}, want: half},
		"being closed":   {first: []framework.Connection{open(first, second)}, second: []framework.Connection{{Local: second, Peer: first}}},
		"being opened":   {first: []framework.Connection{{Local: first, Peer: second}}},
		"no report":      {first: []framework.Connection{open(first, second)}, problem: errors.New("no answer")},
		"its own":        {first: []framework.Connection{open(first, netip.MustParseAddrPort("10.0.0.1:6443"))}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inner := apitest.New(t, 2)
			r := &run{cluster: talkers{inner, []framework.Node{
				reporter{inner.Nodes()[0], first.Addr(), tc.first, nil},
				reporter{inner.Nodes()[1], second.Addr(), tc.second, tc.problem},
			}}}
			got := ""
			if err := r.condition(t.Context(), &Until{Condition: "connected"}); err != nil {
				got = err.Error()
			}
			if got != tc.want {
				t.Errorf("%q, want %q", got, tc.want)
			}
		})
	}
}
