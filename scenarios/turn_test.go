package scenarios_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-ha/holdfast/framework/engine"
	"github.com/holdfast-ha/holdfast/scenarios"
)

// targets returns the targets of the scenario's faults and changes.
func targets(s *scenarios.Scenario) string {
	var all []string
	for _, step := range s.Spec.Timeline {
		if in := step.Inject; in != nil {
			all = append(all, in.Target+in.Params["peer"])
		}
		if a := step.Action; a != nil && a.Node != "" {
			all = append(all, a.Node)
		}
	}
	return strings.Join(all, " ")
}

func TestInTurn(t *testing.T) {
	named := func(name string) *scenarios.Scenario {
		all := scenarios.All()
		return all[slices.IndexFunc(all, func(s *scenarios.Scenario) bool { return s.Metadata.Name == name })]
	}
	for _, test := range []struct {
		scenario      string
		victim, nodes int
		want          string
	}{
		{"apiservers-silent", 1, 3, "etcd/2 apiserver/3 etcd/1"},
		{"apiservers-silent", 3, 3, "etcd/1 apiserver/2 etcd/3"},
		{"apiservers-silent", 3, 5, "etcd/4 apiserver/5 etcd/3"},
		{"etcd-members-killed", 2, 3, "etcd/follower etcd/leader"},
		{"nodes-far-apart", 2, 3, "node/23,1 node/31"}, // node/2 with peer 3,1; node/3 with peer 1
		{"upgrade-one-by-one", 3, 3, "node/3 node/1 node/2"},
		{"etcd-leader-killed", 2, 3, "etcd/leader"},
		// Of the nodes that are left the first two are killed, whichever dies.
		{"nodes-scaled", 2, 3, "follower apiserver/1 apiserver/2 leader fourth fifth"},
		{"members-replaced", 2, 3, "zone/a node/1,fifth leader leader"},
		{"addresses-learnt", 2, 3, "apiserver/2 apiserver/3 apiserver/1 fourth"},
	} {
		s := named(test.scenario)
		before := targets(s)
		turned := s.InTurn(test.victim, test.nodes)
		if got := targets(turned); got != test.want {
			t.Errorf("%s with victim %d of %d hits %q, want %q", test.scenario, test.victim, test.nodes, got, test.want)
		}
		if targets(s) != before || s.Victim != 0 {
			t.Errorf("InTurn changed %s itself", test.scenario)
		}
		if turned.Victim != test.victim || turned.Metadata.Name == s.Metadata.Name {
			t.Errorf("%s: victim %d and name %s", test.scenario, turned.Victim, turned.Metadata.Name)
		}
	}
	// A fourth turn on three nodes starts over.
	if s := named("etcd-leader-killed").InTurn(4, 3); s.Victim != 1 || s.Metadata.Name != "etcd-leader-killed-victim-4" {
		t.Errorf("the fourth turn of three nodes is %s with victim %d", s.Metadata.Name, s.Victim)
	}
	long := *named("etcd-leader-killed")
	long.Metadata.Name = strings.Repeat("a", 53) + "-" + strings.Repeat("b", 9)
	if name := long.InTurn(2, 3).Metadata.Name; name != strings.Repeat("a", 53)+"-victim-2" {
		t.Errorf("the turn of a long name is %s", name)
	}
	for _, s := range scenarios.All() {
		for victim := 1; victim <= 3; victim++ {
			turned := s.InTurn(victim, 3)
			for _, p := range turned.Experiment().Validate(engine.Options{}) {
				t.Errorf("%s: %v", turned.Metadata.Name, p)
			}
		}
	}
}

func TestChooses(t *testing.T) {
	var choosing []string
	for _, s := range scenarios.All() {
		if s.In("full") && s.Chooses(3) {
			choosing = append(choosing, s.Metadata.Name)
		}
	}
	for name, want := range map[string]bool{"apiserver-black-holed": true, "etcd-members-killed": true, "webhook-hangs": true,
		"etcd-leader-killed": false, "apiservers-killed-in-turn": false, "steady": false} {
		if slices.Contains(choosing, name) != want {
			t.Errorf("%s chooses its victim: %v, want %v", name, !want, want)
		}
	}
}
