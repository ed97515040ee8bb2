package judges

import (
	"fmt"
	"strings"

	"github.com/holdfast-ha/holdfast/framework/judge/internal/facts"
	"github.com/holdfast-ha/holdfast/framework/judge/internal/text"
	"github.com/holdfast-ha/holdfast/framework/record"
)

var etcdAuthenticates = Definition{Doc{
	Name:      "etcd-authenticates",
	Needs:     []record.Access{record.EtcdMembers},
	Guarantee: "No etcd member serves data in plaintext, to a client without a certificate, or to one whose certificate a foreign CA signed.",
	Source:    "etcd documentation, Transport security model; Kubernetes documentation, Operating etcd clusters",
	Params:    map[string]string{"port": "client or peer (default client)"},
	Values:    map[string][]string{"port": {"client", "peer"}},
}, judgeEtcdAuthenticates}

func judgeEtcdAuthenticates(m *facts.Case) Finding {
	nodes, closed := m.NodesWith("etcd"), 0
	if len(nodes) == 0 {
		return notApplicable("No control-plane node runs etcd.")
	}
	port := m.Param("port", "client")
	_, to := m.Quiet()
	last := map[[2]string]record.Op{} // by node and kind of client
	for _, op := range record.Each(m.Run.Ops) {
		if op.Purpose == facts.PurposeUnknownEtcdClient && op.Key == "no access" {
			closed++
		}
		kind, ok := strings.CutPrefix(op.Key, port+"/")
		if op.Purpose != facts.PurposeUnknownEtcdClient || !ok || op.Call > to {
			continue
		}
		if kind != "own" && op.Outcome == record.OK && op.Found {
			return Failed("etcd must refuse clients that it does not know: the %s port on %s served data to %s (%s).", port, op.Entrance, text.Stranger[kind], op.Error).
				Shows(text.Describe(op))
		}
		last[[2]string{op.Entrance, kind}] = op
	}
	if closed > 0 && len(last) == 0 {
		return notApplicable("The cluster gives no access to its etcd members: no node reports where etcd serves.")
	}
	var names, missing, unread []string
	tried := 0
	for _, n := range nodes {
		names = append(names, n.Name)
		for _, kind := range []string{"plaintext", "no certificate", "foreign CA"} {
			op, made := last[[2]string{n.Name, kind}]
			if made && op.Outcome == record.Refused {
				tried++
				continue
			}
			missing = append(missing, strings.TrimSuffix(fmt.Sprintf("%s on %s: %s", text.Stranger[kind], n.Name, op.Error), ": "))
		}
		own, made := last[[2]string{n.Name, "own"}]
		switch {
		case made && own.Outcome == record.OK && own.Found:
		// The harness may have no certificate for peers, which shows after the server's.
		case made && port == "peer" && own.Outcome == record.Refused && own.Value != "":
			unread = append(unread, n.Name)
		case onlyCA(last[[2]string{n.Name, "own CA"}]):
			unread = append(unread, n.Name)
		default:
			missing = append(missing, strings.TrimSuffix(fmt.Sprintf("the right certificate on %s: %s", n.Name, own.Error), ": "))
		}
	}
	if len(missing) > 0 {
		return Inconclusive("attempts on etcd's %s port are missing, or do not show that it answers: %s", port, strings.Join(missing, "; ")).
			counted("%d attempts refused", tried)
	}
	alive := "it served a client with the right one"
	if len(unread) > 0 {
		alive = fmt.Sprintf("on %s only its server certificate shows that it answers, since the harness has no client certificate that it accepts", text.And(unread))
	}
	return Passed("On %s, etcd's %s port refused %d attempts: in plaintext, without a certificate, and with one that a foreign CA signed; %s.", text.And(names), port, tried, alive).
		counted("%d attempts refused", tried)
}

// onlyCA reports whether a client that has the member's CA, and no certificate at all, saw
// that the member answers: it verified the member's certificate, and was refused.
func onlyCA(op record.Op) bool { return op.Outcome == record.Refused && op.Value != "" }
