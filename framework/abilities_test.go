package framework

import (
	"net/netip"
	"testing"
)

func TestHolderNode(t *testing.T) {
	for identity, want := range map[string]string{
		"node-1_5b0c5d3e-7c5f-4a51-9d5c-000000000000": "node-1",
		"odd_name_5b0c": "odd_name",
		"bare":          "bare",
		"":              "",
	} {
		if got := HolderNode(identity, nil); got != want {
			t.Errorf("%q: %q, want %q", identity, got, want)
		}
	}
	// Machines that call themselves otherwise than the nodes are called.
	nodes := []Node{host{name: "cp-1"}, host{"cp-2", "ip-10-0-0-2"}, host{name: "cp-3.eu.example"}, host{name: "a.b"}, host{name: "a.c"}}
	for identity, want := range map[string]string{
		"cp-1_x":         "cp-1",
		"cp-1.internal_": "cp-1",
		"ip-10-0-0-2_x":  "cp-2",
		"cp-3_x":         "cp-3.eu.example",
		"a_x":            "a", // which of the two is not known
		"a.c_x":          "a.c",
		"stranger_x":     "stranger",
		"cp-3.elsewhere": "cp-3.elsewhere", // another domain
		"":               "",
	} {
		if got := HolderNode(identity, nodes); got != want {
			t.Errorf("%q: %q, want %q", identity, got, want)
		}
	}
}

// host is a node whose machine has its own name.
type host struct{ name, host string }

func (h host) Name() string            { return h.name }
func (h host) HostName() string        { return h.host }
func (h host) Address() netip.Addr     { return netip.Addr{} }
func (h host) Components() []Component { return nil }
