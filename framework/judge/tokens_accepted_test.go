package judge

import (
	"testing"

	"github.com/holdfast-ha/holdfast/framework/record"
)

func TestTokensAccepted(t *testing.T) {
	const user = "system:serviceaccount:holdfast:token-1"
	// issued has every token used everywhere, and lets change alter an operation, or
	// leave it out, before it is added.
	issued := func(change func(*record.Op) bool) func() *story {
		return func() *story {
			s := newStory()
			for _, from := range threeNodes {
				for _, to := range threeNodes {
					op := record.Op{Client: "tokens", Entrance: to, Type: record.OpGet, Key: from, Purpose: "token",
						Outcome: record.OK, Value: user, Found: true, Call: sec(5), Return: sec(5.01)}
					if from == to {
						op.Value = "issued"
					}
					if change == nil || change(&op) {
						s.op(op)
					}
				}
			}
			return s
		}
	}
	spoil := func(from, to string, o record.Outcome, value string) func() *story {
		return issued(func(op *record.Op) bool {
			if op.Key == from && op.Entrance == to {
				op.Outcome, op.Value, op.Found, op.Error = o, value, o == record.OK, "status: "+value
			}
			return true
		})
	}
	rule(t, record.Check{Requirement: "HA-SEC-006", Judge: "tokens-accepted"}, []ruling{
		{name: "as it should be", want: Pass, took: "6 of 6 pairs", says: "For each of 6 ordered pairs of API servers (node-1, node-2 and node-3)", story: issued(nil)},
		{name: "refused by one", want: Fail, says: "node-3 refused one that node-1 had issued: status: Unauthorized", story: spoil("node-1", "node-3", record.Refused, "Unauthorized")},
		{name: "taken for another", want: Fail, says: "with a token that node-3 had issued, node-2 authenticated a client as admin", story: spoil("node-3", "node-2", record.OK, "admin")},
		{name: "taken for another account", want: Fail, says: "with a token that node-1 had issued, one API server authenticated a client as system:serviceaccount:holdfast:token-1, and node-3 authenticated it as system:serviceaccount:holdfast:other",
			story: spoil("node-1", "node-3", record.OK, "system:serviceaccount:holdfast:other")},
		{name: "other accounts, later", want: Pass, story: func() *story {
			s := issued(nil)()
			for _, to := range threeNodes {
				s.op(record.Op{Entrance: to, Type: record.OpGet, Key: "node-1", Purpose: "token", Value: "system:serviceaccount:holdfast:other", Found: true, Call: sec(6), Return: sec(6.01)})
			}
			return s
		}},
		{name: "recognised, and not allowed to ask", want: Pass, story: spoil("node-1", "node-2", record.Refused, "Forbidden")},
		{name: "refused for another reason", want: Inconclusive, says: "1 of 6 ordered pairs", took: "5 of 6 pairs", story: spoil("node-1", "node-2", record.Refused, "TooManyRequests")},
		{name: "no answer", want: Inconclusive, says: "1 of 6 ordered pairs", story: spoil("node-2", "node-1", record.Unknown, "")},
		{name: "no answer at first", want: Pass, story: func() *story {
			s := spoil("node-2", "node-1", record.Unknown, "")()
			return s.op(record.Op{Entrance: "node-1", Type: record.OpGet, Key: "node-2", Purpose: "token", Value: user, Found: true, Call: sec(6), Return: sec(6.01)})
		}},
		{name: "not issued", want: Inconclusive, says: "node-2 to node-1: it was not issued: status: NotFound", story: func() *story {
			return issued(func(op *record.Op) bool {
				if op.Key == "node-2" && op.Entrance == "node-2" {
					op.Outcome, op.Found, op.Error = record.Refused, false, "status: NotFound"
				}
				return op.Key != "node-2" || op.Entrance == "node-2"
			})()
		}},
		{name: "one answered wrongly, the rest not at all", want: Fail, says: "node-3 refused one that node-1 had issued", story: issued(func(op *record.Op) bool {
			op.Outcome, op.Value, op.Error = record.Refused, "Unauthorized", "status 401"
			return op.Key == "node-1" && op.Entrance == "node-3"
		})},
		{name: "not queried", want: Inconclusive, says: "6 of 6 ordered pairs", story: issued(func(*record.Op) bool { return false })},
		{name: "refused once a fault was injected", want: Pass, story: func() *story {
			s := issued(nil)().fault("cert", "cert-wrong-ca", "node-2", "kube-apiserver", 10, 20)
			return s.op(record.Op{Entrance: "node-1", Type: record.OpGet, Key: "node-2", Purpose: "token", Outcome: record.Refused, Value: "Unauthorized", Call: sec(12), Return: sec(12.01)})
		}},
		{name: "one API server", want: NotApplicable, says: "requires two", story: func() *story {
			return issued(nil)().change(func(r *record.Run) { r.Meta.Entrances = r.Meta.Entrances[:2] })
		}},
	})
}
