package fault

import (
	"strconv"
	"strings"
	"testing"
)

// String writes the reference in its shortest form.
func (r reference) String() string {
	switch {
	case r.host != nil:
		return r.host.names[0]
	case r.zone != "":
		return zonePrefix + r.zone
	case r.nodes:
		return everyNode
	case r.of != nil:
		return r.kind.names[0] + "/" + r.of.String()
	case r.role != "":
		return r.kind.names[0] + "/" + string(r.role)
	case r.number != 0:
		return r.kind.names[0] + "/" + strconv.Itoa(r.number)
	}
	return r.kind.names[0] + "/" + r.node
}

func TestParseTarget(t *testing.T) {
	for in, want := range map[string]string{
		"etcd/leader":                           "etcd/leader",
		"etcd/2":                                "etcd/2",
		"etcd/node-2":                           "etcd/node-2",
		"kube-apiserver/follower":               "apiserver/follower",
		"kube-controller-manager/active":        "kcm/active",
		"scheduler/standby":                     "scheduler/standby",
		"node/leader":                           "node/leader",
		"node/kube-scheduler/active":            "node/scheduler/active",
		"apiserver/kcm/active":                  "apiserver/kcm/active",
		"kcm/etcd/leader":                       "kcm/etcd/leader",
		"balancer":                              "balancer",
		"load-balancer":                         "balancer",
		"node/cp-1.example.org":                 "node/cp-1.example.org",
		"apiserver/any":                         "apiserver/any",
		"kube-apiserver/serving":                "apiserver/serving",
		"node/serving":                          "node/serving",
		"node-agent/2":                          "agent/2",
		"agent/etcd/leader":                     "agent/etcd/leader",
		"zone/b":                                "zone/b",
		"nodes":                                 "nodes",
		"workers":                               "workers",
		"harness":                               "harness",
		"node/99999999999999999999999999999999": "node/99999999999999999999999999999999", // a name then
	} {
		got, err := parseTarget(in)
		if err != nil || got.String() != want {
			t.Errorf("%s: %s, %v", in, got, err)
		}
	}
	for in, want := range map[string]string{
		"":                     "targets are etcd/{leader,follower,any,NUMBER,NODE}",
		"etcd":                 "does not say which etcd",
		"etcd/":                "does not say which etcd",
		"pod/1":                `"pod" is not a kind of target`,
		"kcm/leader":           "active, standby, any",
		"etcd/active":          "leader, follower, any",
		"etcd/serving":         "leader, follower, any",
		"etcd/0":               "numbered from 1",
		"etcd/Node_2":          "not the name of a node",
		"etcd/etcd/leader":     "only another component",
		"node/node/2":          "only another component",
		"etcd/node/2":          "only another component",
		"node/kcm/etcd/leader": "only another component",
		"node/kcm/leader":      "active, standby, any",
		"balancer/1":           `"balancer" takes no number or name`,
		"nodes/1":              `"nodes" takes no number or name`,
		"zone/":                "not the name of a zone",
		"zone/a/b":             "not the name of a zone",
		" etcd/1":              "not a kind of target",
	} {
		if got, err := parseTarget(in); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "balancer") {
			t.Errorf("%q: %v, %v", in, got, err)
		}
	}
}

func FuzzParseTarget(f *testing.F) {
	for _, s := range []string{"etcd/leader", "node/kcm/active", "balancer", "apiserver/2", "kcm//", "node/kcm/etcd/leader", "etcd/00", "etcd/king", "etcd/9", "zone/b", "nodes", "etcd/99999999999999999999", "/", ""} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		r, err := parseTarget(s)
		if err != nil {
			return
		}
		again, err := parseTarget(r.String())
		if err != nil || again.String() != r.String() {
			t.Errorf("%q reads as %q, which reads as %q, %v", s, r, again, err)
		}
		if strings.Count(r.String(), "/") > 2 {
			t.Errorf("%q reads as %q", s, r)
		}
	})
}

// In a cluster of three, the number of a node counts on, and starts again after the last.
func TestShifted(t *testing.T) {
	for target, want := range map[string]string{
		"etcd/1": "etcd/2", "apiserver/3": "apiserver/1", "node/2": "node/3", "node/4": "node/4",
		"etcd/leader": "etcd/leader", "kcm/node-1": "kcm/node-1", "node/kcm/active": "node/kcm/active",
		"zone/a": "zone/a", "balancer": "balancer", "nodes": "nodes", "fourth": "fourth",
	} {
		if got := Shifted(target, 1, 3); got != want {
			t.Errorf("Shifted(%q) = %q, want %q", target, got, want)
		}
	}
	got := ShiftedParams(Latency, map[string]string{"peer": "2, 3,node-1,zone/b,balancer", "delay": "3s"}, 1, 3)
	if want := "3,1,node-1,zone/b,balancer"; got["peer"] != want || got["delay"] != "3s" {
		t.Errorf("ShiftedParams gives %v, want peer=%s", got, want)
	}
	if got := ShiftedParams(Split, map[string]string{"groups": "1 + node-2+2,3", "hosts": "balancer:1"}, 1, 3); got["groups"] != "2+node-2+3,1" || got["hosts"] != "balancer:1" {
		t.Errorf("ShiftedParams gives %v for groups", got)
	}
}
