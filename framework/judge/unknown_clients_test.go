package judge

import (
	"testing"

	"github.com/holdfast-ha/holdfast/framework/record"
)

func TestEtcdAuthenticates(t *testing.T) {
	// tried has every client refused but the own one, and lets change alter an operation,
	// or leave it out, before it is added.
	tried := func(change func(*record.Op) bool) func() *story {
		return func() *story {
			s := newStory()
			for _, n := range threeNodes {
				for _, key := range []string{"client/plaintext", "client/no certificate", "client/foreign CA", "client/own",
					"peer/plaintext", "peer/no certificate", "peer/foreign CA", "peer/own"} {
					op := record.Op{Client: "unknown-etcd-clients", Entrance: n, API: "etcd", Type: record.OpGet, Key: key, Purpose: "unknown-etcd-client",
						Outcome: record.Refused, Error: "GET /members: EOF", Call: sec(5), Return: sec(5.01)}
					if key == "client/own" || key == "peer/own" {
						op.Outcome, op.Found, op.Value = record.OK, true, "serial 1"
					}
					if change == nil || change(&op) {
						s.op(op)
					}
				}
			}
			return s
		}
	}
	spoil := func(node, key string, o record.Outcome) func() *story {
		return tried(func(op *record.Op) bool {
			if op.Entrance == node && op.Key == key {
				op.Outcome, op.Found, op.Error = o, o == record.OK, "GET /members: what came"
			}
			return true
		})
	}
	check := func(port string) record.Check {
		return record.Check{Requirement: "HA-SEC-001", Judge: "etcd-authenticates", Params: map[string]string{"port": port}}
	}
	rule(t, check("client"), []ruling{
		{name: "as it should be", want: Pass, took: "9 attempts refused", says: "On node-1, node-2 and node-3, etcd's client port refused 9 attempts", story: tried(nil)},
		{name: "served without TLS", want: Fail, says: "the client port on node-2 served data to a client without TLS", story: spoil("node-2", "client/plaintext", record.OK)},
		{name: "served without a certificate", want: Fail, says: "to a client without a certificate (GET /members: what came)", story: spoil("node-3", "client/no certificate", record.OK)},
		{name: "served with a foreign one", want: Fail, says: "with a certificate of a foreign CA", story: spoil("node-1", "client/foreign CA", record.OK)},
		{name: "served at first", want: Fail, says: "node-1 served data", story: func() *story {
			s := spoil("node-1", "client/plaintext", record.OK)()
			return s.op(record.Op{Entrance: "node-1", API: "etcd", Type: record.OpGet, Key: "client/plaintext", Purpose: "unknown-etcd-client", Outcome: record.Refused, Call: sec(6), Return: sec(6.01)})
		}},
		{name: "the other port served", want: Pass, story: spoil("node-2", "peer/plaintext", record.OK)},
		{name: "no answer", want: Inconclusive, says: "a client without a certificate on node-2: GET /members: what came", took: "8 attempts refused", story: spoil("node-2", "client/no certificate", record.Unknown)},
		{name: "the right certificate refused", want: Inconclusive, says: "the right certificate on node-2", story: spoil("node-2", "client/own", record.Refused)},
		{name: "the harness has only the CA", want: Pass, says: "on node-2 only its server certificate shows that it answers", story: tried(func(op *record.Op) bool {
			if op.Entrance == "node-2" && op.Key == "client/own" {
				op.Key, op.Outcome, op.Found, op.Value = "client/own CA", record.Refused, false, "01"
			}
			return true
		})},
		{name: "the harness has only the CA, by which the member's certificate does not verify", want: Inconclusive, says: "the right certificate on node-2", story: tried(func(op *record.Op) bool {
			if op.Entrance == "node-2" && op.Key == "client/own" {
				op.Key, op.Outcome, op.Found, op.Value = "client/own CA", record.Refused, false, ""
			}
			return true
		})},
		{name: "not tried on one node", want: Inconclusive, says: "a client without TLS on node-3", story: tried(func(op *record.Op) bool { return op.Entrance != "node-3" })},
		{name: "nobody tried", want: Inconclusive, story: tried(func(*record.Op) bool { return false })},
		{name: "served once a fault was injected", want: Pass, story: func() *story {
			s := tried(nil)().fault("cert", "cert-wrong-ca", "node-2", "etcd", 10, 20)
			return s.op(record.Op{Entrance: "node-1", API: "etcd", Type: record.OpGet, Key: "client/plaintext", Purpose: "unknown-etcd-client", Found: true, Call: sec(12), Return: sec(12.01)})
		}},
		{name: "no access to etcd", want: NotApplicable, says: "no node reports where etcd serves", story: tried(func(op *record.Op) bool {
			op.Outcome, op.Found = record.Unknown, false
			op.Key = "no access"
			return true
		})},
		{name: "no access to one member", want: Inconclusive, says: "a client without TLS on node-2", story: tried(func(op *record.Op) bool {
			if op.Entrance == "node-2" {
				op.Outcome, op.Found, op.Key = record.Unknown, false, "no access"
			}
			return true
		})},
		{name: "etcd elsewhere", want: NotApplicable, says: "No control-plane node runs etcd", story: func() *story {
			return tried(nil)().change(func(r *record.Run) {
				for i := range r.Meta.Nodes {
					r.Meta.Nodes[i].Components = []string{"kube-apiserver"}
				}
			})
		}},
	})
	rule(t, check("peer"), []ruling{
		{name: "peer: as it should be", want: Pass, says: "it served a client with the right one", story: tried(nil)},
		{name: "peer: served", want: Fail, says: "the peer port on node-1 served data", story: spoil("node-1", "peer/foreign CA", record.OK)},
		{name: "peer: the harness has no certificate", want: Pass, says: "on node-2 only its server certificate shows that it answers", story: spoil("node-2", "peer/own", record.Refused)},
		{name: "peer: neither has the member", want: Inconclusive, says: "the right certificate on node-2", story: tried(func(op *record.Op) bool {
			if op.Entrance == "node-2" && op.Key == "peer/own" {
				op.Outcome, op.Found, op.Value = record.Refused, false, ""
			}
			return true
		})},
		{name: "peer: no answer with the right one", want: Inconclusive, says: "the right certificate on node-2", story: spoil("node-2", "peer/own", record.Unknown)},
	})
}

func TestUnknownReadsNothing(t *testing.T) {
	// asked makes every client refused, and lets change alter an operation, or leave it out,
	// before it is added.
	asked := func(change func(*record.Op) bool) func() *story {
		return func() *story {
			s := newStory()
			for _, n := range threeNodes {
				for _, kind := range []string{"anonymous", "foreign CA", "invalid token"} {
					op := record.Op{Client: "unknown-readers", Entrance: n, Type: record.OpGet, Key: kind, Purpose: "unknown-reader", Value: "200",
						Outcome: record.Refused, Call: sec(5), Return: sec(5.5)}
					if change == nil || change(&op) {
						s.op(op)
					}
				}
			}
			return s
		}
	}
	spoil := func(o record.Outcome, value, problem string) func() *story {
		return asked(func(op *record.Op) bool {
			if op.Entrance == "node-2" && op.Key == "anonymous" {
				op.Outcome, op.Found, op.Value, op.Error = o, o == record.OK, value, problem
			}
			return true
		})
	}
	rule(t, record.Check{Requirement: "HA-SEC-003", Judge: "unknown-reads-nothing"}, []ruling{
		{name: "as it should be", want: Pass, took: "1800 requests refused", says: "Each API server (node-1, node-2 and node-3)", story: asked(nil)},
		{name: "something served", want: Fail, says: "node-2 served /api/v1/secrets to a client without credentials", story: spoil(record.OK, "200", "/api/v1/secrets")},
		{name: "something served among many", want: Fail, says: "node-2 served /api/v1/watch/secrets to a client without credentials",
			story: spoil(record.OK, "650", "/api/v1/watch/secrets; 1 × 200 (/api/v1/watch/secrets), 649 × 403")},
		{name: "allowed to read an object that does not exist", want: Fail, says: "node-2 answered a client without credentials that the object at /api/v1/namespaces/default/secrets/holdfast-unknown does not exist",
			story: asked(func(op *record.Op) bool {
				if op.Entrance == "node-2" && op.Key == "anonymous" {
					op.Outcome, op.Error = record.OK, "/api/v1/namespaces/default/secrets/holdfast-unknown; 649 × 403, 1 × 404 (/api/v1/namespaces/default/secrets/holdfast-unknown)"
				}
				return true
			})},
		{name: "paths that do not exist", want: Pass, took: "1800 requests refused", story: spoil(record.Refused, "200", "198 × 401, 2 × 404 (/logs, /logs/)")},
		{name: "no answer to one path", want: Inconclusive, says: "a client without credentials at node-2: 1 of 200 paths have no answer", took: "1600 requests refused", story: spoil(record.Unknown, "200", "1 of 200 paths have no answer; /metrics: status 500")},
		{name: "few paths", want: Inconclusive, says: "it asked for 19 paths, at least 20", story: spoil(record.Refused, "19", "")},
		{name: "one kind not asked", want: Inconclusive, says: "a client with an invalid token at node-1", story: asked(func(op *record.Op) bool { return op.Key != "invalid token" })},
		{name: "one API server not asked", want: Inconclusive, says: "at node-3", story: asked(func(op *record.Op) bool { return op.Entrance != "node-3" })},
		{name: "served once a fault was injected", want: Pass, story: func() *story {
			s := asked(nil)().fault("cert", "cert-wrong-ca", "node-2", "kube-apiserver", 10, 20)
			return s.op(record.Op{Entrance: "node-1", Type: record.OpGet, Key: "anonymous", Purpose: "unknown-reader", Value: "200", Found: true, Error: "/apis", Call: sec(12), Return: sec(12.01)})
		}},
	})
}
