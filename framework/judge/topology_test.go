package judge

import (
	"strings"
	"testing"

	"github.com/holdfast-ha/holdfast/framework/judge/internal/facts"
	"github.com/holdfast-ha/holdfast/framework/record"
)

func zones(names ...string) func() *story {
	return func() *story {
		return leaders(newStory()).change(func(r *record.Run) {
			for i := range r.Meta.Nodes {
				r.Meta.Nodes[i].Zone = names[i]
			}
		})
	}
}

func TestFaultDomains(t *testing.T) {
	rule(t, record.Check{Requirement: "HA-TOP-003", Level: "SHOULD", Judge: "fault-domains"}, []ruling{
		{name: "one each", story: zones("a", "b", "c"), want: Pass, took: "3 fault domains",
			says: "Losing any one of 3 fault domains leaves etcd the 2 of 3 voting members that it needs: node-1 in a, node-2 in b and node-3 in c."},
		{name: "two in one", story: zones("a", "b", "a"), want: Fail, took: "2 fault domains",
			says: "a takes 2 of 3 voting members with it (node-1 and node-3), and leaves 1 where 2 are required"},
		{name: "all in one", story: zones("a", "a", "a"), want: Fail, says: "3 of 3 voting members"},
		{name: "not told", story: zones("a", "", "c"), want: NotApplicable, says: "fault domain of node-2"},
		{name: "five over three", want: Pass, says: "the 3 of 5", story: func() *story {
			return zones("a", "b", "c")().change(func(r *record.Run) {
				r.Meta.Nodes = append(r.Meta.Nodes, record.Node{Name: "node-4", Zone: "a", Components: []string{"etcd"}},
					record.Node{Name: "node-5", Zone: "b", Components: []string{"etcd"}})
			})
		}},
		{name: "a learner has no vote", want: Fail, says: "1 of 2 voting members", story: func() *story {
			return zones("a", "b", "c")().change(eachEtcd(func(_ record.Nanos, e *record.EtcdStatus) { e.Learner = e.Node == "node-3" }))
		}},
		{name: "no vote on a node without etcd", want: Fail, says: "a takes 2 of 3", story: func() *story {
			return zones("a", "a", "b")().change(func(r *record.Run) {
				r.Meta.Nodes = append(r.Meta.Nodes, record.Node{Name: "node-4", Zone: "c", Components: []string{"kube-apiserver"}})
			})
		}},
		{name: "etcd elsewhere", want: NotApplicable, says: "No control-plane node runs etcd", story: func() *story {
			return zones("a", "b", "c")().change(func(r *record.Run) {
				for i := range r.Meta.Nodes {
					r.Meta.Nodes[i].Components = []string{"kube-apiserver"}
				}
			})
		}},
	})
}

// versions gives the components versions: those that the cluster says, and those
// that the components give themselves, as "node component version".
func versions(says string, give ...string) func() *story {
	return func() *story {
		s := newStory().change(func(r *record.Run) {
			r.Meta.Versions = map[string]map[string]string{}
			for _, n := range threeNodes {
				r.Meta.Versions[n] = map[string]string{"kube-apiserver": says, "kube-controller-manager": says, "kube-scheduler": says}
			}
		})
		for _, g := range give {
			f := strings.Fields(g)
			s.read(f[0], f[1], f[2], 0, 5, 5.1).purpose("version")
		}
		return s
	}
}

// onNodes is versions with what was seen on nodes: keys and versions, in turn.
func onNodes(all string, seen ...string) func() *story {
	return func() *story {
		s := versions(all)()
		for i := 0; i < len(seen); i += 2 {
			s.read("node-1", seen[i], seen[i+1], 0, 3, 4).purpose("version")
		}
		return s
	}
}

// hidden is versions of a cluster whose processes cannot be seen, without that of a component
// of node-1.
func hidden(component, all string, give ...string) func() *story {
	return func() *story {
		s := versions(all, give...)()
		s.run.Meta.NoAccess = []record.Access{record.Processes}
		delete(s.run.Meta.Versions["node-1"], component)
		return s
	}
}

func TestVersionSkew(t *testing.T) {
	rule(t, record.Check{Requirement: "HA-TOP-004", Judge: "version-skew"}, []ruling{
		{name: "all the same", story: versions("v1.37.1"), want: Pass, took: "9 components", says: "All 9 components have minor version 1.37."},
		{name: "another patch", story: versions("v1.37.1", "node-1 kube-apiserver v1.37.9"), want: Pass, says: "minor version 1.37"},
		{name: "API servers one apart", want: Pass, says: "from kube-apiserver v1.36.3 on node-1 to kube-apiserver v1.37.1 on node-2", story: versions("v1.37.1",
			"node-1 kube-apiserver v1.36.3", "node-1 kube-controller-manager v1.36.3", "node-1 kube-scheduler v1.36.3")},
		{name: "API servers two apart", want: Fail, says: "kube-apiserver v1.35.8 on node-2 and kube-apiserver v1.37.1 on node-1",
			story: versions("v1.37.1", "node-2 kube-apiserver v1.35.8")},
		{name: "another major", want: Fail, says: "kube-apiserver v1.37.1 on node-1 and kube-apiserver v2.0.0 on node-3",
			story: versions("v1.37.1", "node-3 kube-apiserver v2.0.0")},
		{name: "one older", story: versions("v1.37.1", "node-1 kube-scheduler v1.36.3"), want: Pass, says: "within the policy"},
		{name: "two older", want: Fail, says: "kube-scheduler v1.35.8 on node-1 is 2 minor versions older than kube-apiserver v1.37.1 on node-1",
			story: versions("v1.37.1", "node-1 kube-scheduler v1.35.8")},
		{name: "newer", want: Fail, says: "kube-controller-manager v1.37.1 on node-1 talks to kube-apiserver v1.36.3 on node-1",
			story: versions("v1.36.3", "node-1 kube-controller-manager v1.37.1")},
		{name: "newer than an API server elsewhere, which it does not ask", story: versions("v1.37.1", "node-3 kube-apiserver v1.36.3",
			"node-3 kube-controller-manager v1.36.3", "node-3 kube-scheduler v1.36.3"), want: Pass},
		{name: "newer than an API server elsewhere, which it asks", want: Fail, says: "kube-scheduler v1.37.1 on node-1 talks to kube-apiserver v1.36.3 on node-3", story: func() *story {
			s := versions("v1.37.1", "node-3 kube-apiserver v1.36.3", "node-3 kube-controller-manager v1.36.3", "node-3 kube-scheduler v1.36.3")()
			return s.action("node-1", 25).lastAction(func(a *record.Timed[record.Action]) { a.V.Via = "node-3" })
		}},
		{name: "newer than an API server elsewhere, from which it reads its lease", want: Fail, says: "kube-scheduler v1.37.1 on node-1 talks to kube-apiserver v1.36.3 on node-3", story: func() *story {
			s := versions("v1.37.1", "node-3 kube-apiserver v1.36.3", "node-3 kube-controller-manager v1.36.3", "node-3 kube-scheduler v1.36.3")()
			return s.asks("kube-scheduler", "node-1", "node-3", 20, 21)
		}},
		{name: "it reads its lease from one of its own version", want: Pass, story: func() *story {
			s := versions("v1.37.1", "node-3 kube-apiserver v1.36.3", "node-3 kube-controller-manager v1.36.3", "node-3 kube-scheduler v1.36.3")()
			return s.asks("kube-scheduler", "node-1", "node-2", 20, 21).heard("node-3")
		}},
		{name: "what a component says of itself counts", story: versions("v1.30.0", "node-1 kube-apiserver v1.31.0"), want: Pass},
		{name: "not told", story: versions(""), want: Inconclusive, says: "the version of kube-apiserver on node-1"},
		{name: "not told, without access to processes", want: NotApplicable, says: "nothing else shows the versions of kube-scheduler on node-1. 8 other components are within the policy",
			story: hidden("kube-scheduler", "v1.37.1")},
		{name: "an API server's, without access to processes", want: Inconclusive, says: "the version of kube-apiserver on node-1", story: hidden("kube-apiserver", "v1.37.1")},
		{name: "two apart, without access to processes", want: Fail, says: "kube-apiserver v1.35.8 on node-2", story: hidden("kube-scheduler", "v1.37.1", "node-2 kube-apiserver v1.35.8")},
		{name: "not understood", story: versions("v1.37.1", "node-1 kube-scheduler head"), want: Inconclusive, says: "the version of kube-scheduler on node-1"},
		{name: "kubelets up to three older", want: Pass, took: "11 components", says: "11 components are within the policy", story: onNodes("v1.37.1", "kubelet/worker-1", "v1.34.2", "kube-proxy/worker-1", "v1.37.0")},
		{name: "a kubelet four older", want: Fail, says: "kubelet v1.33.2 on worker-1 is 4 minor versions older than kube-apiserver", story: onNodes("v1.37.1", "kubelet/worker-1", "v1.33.2")},
		{name: "a kube-proxy that is newer", want: Fail, says: "kube-proxy v1.38.0 on worker-2 is newer than kube-apiserver", story: onNodes("v1.37.1", "kube-proxy/worker-2", "v1.38.0")},
		{name: "a kubelet newer than the oldest API server", want: Fail, says: "is newer than kube-apiserver v1.36.3 on node-3", story: func() *story {
			s := versions("v1.37.1", "node-3 kube-apiserver v1.36.3", "node-3 kube-controller-manager v1.36.3", "node-3 kube-scheduler v1.36.3")()
			return s.read("node-1", "kubelet/worker-1", "v1.37.1", 0, 3, 4).purpose("version")
		}},
		{name: "kubelets that could not be listed", want: Inconclusive, says: "the version of kubelet on the nodes", story: onNodes("v1.37.1", "kubelet/", "")},
		{name: "an upgrade that follows is another matter", want: Pass, story: func() *story {
			s := versions("v1.37.1")().fault("kill", "kill", "node-2", "kube-scheduler", 10, 20)
			return s.read("node-2", "kube-scheduler", "v1.30.0", 0, 30, 31).purpose("version")
		}},
	})
}

// shaken makes each handshake, and lets change alter an operation before it is added.
func shaken(change func(*record.Op) bool) func() *story {
	return func() *story {
		s := newStory()
		for i, e := range s.run.Meta.Entrances {
			keys := []string{"balancer/10.77.0.10", "balancer/api.demo.holdfast", "service/kubernetes", "service/kubernetes.default", "service/10.96.0.1"}
			if i > 0 {
				keys = append(keys, "node/"+s.run.Meta.Nodes[i-1].Address)
			}
			for _, key := range keys {
				op := during(5, 5.1)
				op.Type, op.Entrance, op.Key, op.Found, op.Purpose = record.OpGet, e, key, true, "certificate"
				if change == nil || change(&op) {
					s.op(op)
				}
			}
		}
		return s
	}
}

func TestCertificates(t *testing.T) {
	spoil := func(entrance, key string, o record.Outcome, problem string) func() *story {
		return shaken(func(op *record.Op) bool {
			if op.Entrance == entrance && op.Key == key {
				op.Outcome, op.Error = o, problem
			}
			return true
		})
	}
	without := func(key string) func() *story {
		return shaken(func(op *record.Op) bool { return !strings.HasPrefix(op.Key, key) })
	}
	rule(t, record.Check{Requirement: "HA-CL-009", Judge: "certificates"}, []ruling{
		{name: "as it should be", story: shaken(nil), want: Pass, took: "23 of 23 handshakes",
			says: "On each of 4 entrances TLS verification succeeded for 10.77.0.10, api.demo.holdfast, kubernetes, kubernetes.default and 10.96.0.1"},
		{name: "without the balancer's name", want: Fail, took: "22 of 23 handshakes", says: "through node-2 it is not valid for api.demo.holdfast",
			story: spoil("node-2", "balancer/api.demo.holdfast", record.Refused, "x509: certificate is valid for others")},
		{name: "without the node's address", want: Fail, says: "through node-3 it is not valid for 10.77.0.13",
			story: spoil("node-3", "node/10.77.0.13", record.Refused, "x509")},
		{name: "without the service's address, on the balancer", want: Fail, says: "through balancer it is not valid for 10.96.0.1",
			story: spoil("balancer", "service/10.96.0.1", record.Refused, "x509")},
		{name: "no handshake", want: Inconclusive, says: "no TLS handshake completed for kubernetes through node-1",
			story: spoil("node-1", "service/kubernetes", record.Unknown, "connection refused")},
		{name: "balancer's names not tried", want: Inconclusive, says: "no TLS handshake was attempted for the name or the address of the load balancer", story: without("balancer/")},
		{name: "service's names not tried", want: Inconclusive, says: "the cluster IP of the kubernetes service and the name of the kubernetes service", story: without("service/")},
		{name: "a node's address not tried", want: Inconclusive, says: "no TLS handshake completed for 10.77.0.11 through node-1", story: without("node/10.77.0.11")},
		{name: "an entrance not tried", want: Inconclusive, says: "through node-2", story: shaken(func(op *record.Op) bool { return op.Entrance != "node-2" })},
		{name: "nothing", story: func() *story { return newStory() }, want: Inconclusive, says: "no TLS handshake was attempted"},
		{name: "no balancer", want: Pass, story: func() *story {
			return without("balancer/")().change(func(r *record.Run) { r.Meta.Entrances = r.Meta.Entrances[1:] })
		}},
		{name: "valid in the end", want: Pass, story: func() *story {
			s := spoil("node-2", "service/kubernetes", record.Refused, "x509")()
			return s.read("node-2", "service/kubernetes", "serial 1", 0, 6, 7).purpose("certificate")
		}},
		{name: "spoilt later by the experiment", want: Pass, story: func() *story {
			s := shaken(nil)().fault("cert", "cert-wrong-names", "node-2", "kube-apiserver", 10, 20)
			return s.read("node-2", "service/kubernetes", "", 0, 11, 12).purpose("certificate").outcome(record.Refused)
		}},
	})
}

// What looks at the control plane is not traffic: the histories of clients do not
// hold it.
func TestLooksAreNoTraffic(t *testing.T) {
	s := versions("v1.37.1", "node-1 kube-apiserver v1.37.1", "node-1 kube-apiserver v1.36.3")()
	s.read("node-1", "lock", "node-1", 5, 6, 7).purpose("lock").read("node-1", "service/kubernetes", "", 0, 8, 9).purpose("certificate")
	if ops := facts.OwnOps(s.run); len(ops) > 0 {
		t.Errorf("taken for traffic: %+v", ops)
	}
	for _, e := range s.run.Meta.Entrances {
		if reads := facts.ReadsThrough(s.run, e, 0, sec(60)); len(reads) > 0 {
			t.Errorf("taken for reads: %+v", reads)
		}
	}
}
