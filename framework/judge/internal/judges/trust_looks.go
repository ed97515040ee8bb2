package judges

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/holdfast-ha/holdfast/framework/judge/internal/facts"
	"github.com/holdfast-ha/holdfast/framework/judge/internal/text"
	"github.com/holdfast-ha/holdfast/framework/record"
)

// trustLook is what was seen between two changes, by node and key; if something was seen several
// times, the last one.
type trustLook map[[2]string]record.Op

// trustLooks are what was seen before the first change and after each one.
func trustLooks(m *facts.Case, changes []record.NodeChange) []trustLook {
	all := make([]trustLook, len(changes)+1)
	for i := range all {
		from, until := record.Nanos(0), facts.Endless
		if i > 0 {
			from = changes[i-1].Effect
		}
		if i < len(changes) {
			until = changes[i].Called
		}
		all[i] = trustLook{}
		for _, o := range m.Run.Ops {
			if op := o.V; (op.Purpose == facts.PurposeServed || op.Purpose == facts.PurposeTrust) && op.Call >= from && op.Return <= until {
				all[i][[2]string{op.Entrance, op.Key}] = op
			}
		}
	}
	return all
}

func issuerOf(op record.Op) string {
	_, ca, _ := strings.Cut(op.Value, " ")
	return ca
}

// etcdPorts are the names of a member's ports.
var etcdPorts = []string{"client", "peer"}

func etcdClient(node, port, ca string) [2]string { return [2]string{node, "etcd-" + port + "/" + ca} }

func refusedByEtcd(op record.Op) bool { return op.Outcome == record.Refused && op.Value == "TLS alert" }

// membersTrustWhatIsServed checks that no etcd member refuses clients of a CA that is in use by
// another. Unless it is required, what was not tried does not matter.
func (l trustLook) membersTrustWhatIsServed(m *facts.Case, required bool) (missing []string, broken *Finding) {
	for _, n := range m.NodesWith("etcd") {
		for _, port := range etcdPorts {
			served := l[[2]string{n.Name, "etcd/" + port}]
			if served.Outcome != record.OK {
				continue
			}
			ca := issuerOf(served)
			for _, other := range m.NodesWith("etcd") {
				op, made := l[etcdClient(other.Name, port, ca)]
				switch {
				case refusedByEtcd(op):
					return nil, Failed("A CA of etcd must be trusted by every member before any member serves with a certificate from it, and for as long as one does: the %s port on %s refused a client with a certificate from %s, which issued that of %s.",
						port, other.Name, ca, n.Name).Rests(served.Call, op.Return).Shows(text.Describe(served), text.Describe(op)).problem()
				case op.Outcome != record.OK && (made || required):
					missing = append(missing, fmt.Sprintf("no request shows whether the %s port of etcd on %s accepts clients with certificates of %s, which is served", port, other.Name, ca))
				}
			}
		}
	}
	return missing, nil
}

// membersTrustOnlyNew checks which clients the members of changed nodes accept when etcd's CA has
// been replaced.
func membersTrustOnlyNew(changes []record.NodeChange, first, last trustLook) (missing []string, broken *Finding) {
	members := map[string]bool{}
	for _, c := range changes {
		members[c.Node.Name] = members[c.Node.Name] || slices.Contains(c.Node.Components, "etcd")
	}
	for _, node := range slices.Sorted(maps.Keys(members)) {
		if !members[node] {
			continue
		}
		for _, port := range etcdPorts {
			at := [2]string{node, "etcd/" + port}
			old, next := issuerOf(first[at]), issuerOf(last[at])
			without := last[etcdClient(node, port, old)]
			switch {
			case old == "" || next == "":
				missing = append(missing, fmt.Sprintf("the CA of the certificate of etcd's %s port on %s was not seen before and after", port, node))
			case old == next:
				return missing, Failed("At the end, every etcd member must have a certificate from the new CA: the %s port on %s has one from %s.", port, node, old).Shows(text.Describe(last[at])).problem()
			case without.Outcome == record.OK:
				return missing, Failed("At the end, no etcd member may serve a client with a certificate from the old CA: the %s port on %s served one with a certificate from %s.", port, node, old).
					Shows(text.Describe(without)).problem()
			case !refusedByEtcd(without):
				missing = append(missing, fmt.Sprintf("no request shows whether the %s port of etcd on %s refuses clients of the old CA at the end", port, node))
			}
		}
	}
	return missing, nil
}

// frontProxies checks that API servers accept the front proxies of a CA while one of them is such
// a proxy itself, for the servers behind it, and in the end only those of the new CA. From which CA
// that certificate is follows from the changes: nothing outside the cluster sees it.
func frontProxies(m *facts.Case, changes []record.NodeChange, looks []trustLook) (missing []string, broken *Finding) {
	old, next, ok := proxyCAs(looks[0])
	if !ok {
		return []string{"no request shows before the first change whose front proxies the API servers accept"}, nil
	}
	servers, withNew := m.APIServers(), map[string]bool{}
	for i, l := range looks {
		// Any other change leaves the node with certificates of the same CAs.
		if i > 0 && changes[i-1].Action == "rotate-ca" {
			stage := changes[i-1].To // from use-new on, the node has certificates from the new CAs
			withNew[changes[i-1].Node.Name] = stage == "use-new" || stage == "trust-new"
		}
		for _, ca := range []string{old, next} {
			if !slices.ContainsFunc(servers, func(s string) bool { return withNew[s] == (ca == next) }) {
				continue // it is not in use
			}
			for _, server := range servers {
				op := l[[2]string{server, "front-proxy/" + ca}]
				switch {
				case op.Outcome == record.Refused && op.Value == "Unauthorized":
					return nil, Failed("The CA of front proxies must be trusted by every API server for as long as one of them has a certificate from it: the one on %s refused a proxy with a certificate from %s.", server, ca).
						Rests(op.Call, op.Return).Shows(text.Describe(op)).problem()
				case op.Outcome != record.OK || !op.Found:
					missing = append(missing, fmt.Sprintf("no request shows whether the API server on %s accepts front proxies of %s, which are in use", server, ca))
				}
			}
		}
	}
	for _, server := range servers {
		op := looks[len(looks)-1][[2]string{server, "front-proxy/" + old}]
		switch {
		case op.Outcome == record.OK && op.Found:
			return missing, Failed("At the end, no API server may accept a front proxy with a certificate from the old CA: the one on %s accepted a request with a certificate from %s as one of %s.", server, old, op.Value).
				Shows(text.Describe(op)).problem()
		case op.Outcome != record.Refused || op.Value != "Unauthorized":
			missing = append(missing, "no request shows whether the API server on "+server+" refuses front proxies of the old CA at the end")
		}
	}
	return missing, nil
}

// proxyCAs returns the old and the new CA of front proxies: the one whose proxies were accepted
// before the first change, and the one whose proxies were not.
func proxyCAs(first trustLook) (old, next string, ok bool) {
	accepted, refused := map[string]bool{}, map[string]bool{}
	for at, op := range first {
		ca, is := strings.CutPrefix(at[1], "front-proxy/")
		switch {
		case !is:
		case op.Outcome == record.OK && op.Found:
			accepted[ca] = true
		case op.Outcome == record.Refused && op.Value == "Unauthorized":
			refused[ca] = true
		}
	}
	if len(accepted) != 1 || len(refused) != 1 {
		return "", "", false
	}
	for ca := range accepted {
		old = ca
	}
	for ca := range refused {
		next = ca
	}
	return old, next, old != next
}
