package judges

import (
	"fmt"
	"slices"
	"strings"

	"github.com/holdfast-ha/holdfast/framework/judge/internal/facts"
	"github.com/holdfast-ha/holdfast/framework/judge/internal/text"
	"github.com/holdfast-ha/holdfast/framework/record"
)

var certificates = Definition{Doc{
	Name:      "certificates",
	Guarantee: "On each entrance, TLS verification succeeds for the load balancer's name and address, for the names and the cluster IP of the kubernetes service and, on an API server, for its node's address.",
	Source:    "Automated HA master deployment (certificates)",
}, judgeCertificates}

// balancerEntrance is the name of the load balancer among the entrances.
const balancerEntrance = "balancer"

func judgeCertificates(m *facts.Case) Finding {
	_, to := m.Quiet()
	shakes := map[[2]string]record.Op{} // the last one by entrance and key
	var common []string                 // the names that every entrance must be valid for
	for _, op := range record.Each(m.Run.Ops) {
		if op.Purpose != "certificate" || op.Call > to {
			continue
		}
		shakes[[2]string{op.Entrance, op.Key}] = op
		if !strings.HasPrefix(op.Key, "node/") && !slices.Contains(common, op.Key) {
			common = append(common, op.Key)
		}
	}
	if lacks := lacking(m, common); len(lacks) > 0 {
		return Inconclusive("no TLS handshake was attempted for %s", text.And(lacks))
	}
	var broken, missing, evidence []string
	verified, wanted := 0, 0
	for _, e := range m.Run.Meta.Entrances {
		keys := slices.Clone(common)
		if m.IsNode(e) {
			keys = append(keys, "node/"+m.Address(e))
		}
		for id := range shakes { // what else was tried for its node
			if id[0] == e && !slices.Contains(keys, id[1]) {
				keys = append(keys, id[1])
			}
		}
		slices.Sort(keys)
		for _, key := range keys {
			wanted++
			op, made := shakes[[2]string{e, key}]
			_, name, _ := strings.Cut(key, "/")
			switch {
			case made && op.Outcome == record.OK:
				verified++
			case made && op.Outcome == record.Refused:
				broken = append(broken, fmt.Sprintf("through %s it is not valid for %s", e, name))
				evidence = append(evidence, text.Describe(op))
			default:
				missing = append(missing, fmt.Sprintf("for %s through %s", name, e))
				if made {
					evidence = append(evidence, text.Describe(op))
				}
			}
		}
	}
	count := func(f Finding) Finding { return f.counted("%d of %d handshakes", verified, wanted).Shows(evidence...) }
	switch {
	case len(broken) > 0:
		return count(Failed("The certificate on each entrance must be valid for all names and addresses that clients use: %s.", text.And(broken)))
	case len(missing) > 0:
		return count(Inconclusive("no TLS handshake completed %s", text.And(missing)))
	}
	var names []string
	for _, key := range common {
		_, name, _ := strings.Cut(key, "/")
		names = append(names, name)
	}
	return count(Passed("On each of %d entrances TLS verification succeeded for %s, and on each API server for its node's address.", len(m.Run.Meta.Entrances), text.And(names)))
}

// lacking names what no handshake was made for at any entrance.
func lacking(m *facts.Case, common []string) (lacks []string) {
	has := func(prefix string, address bool) bool {
		return slices.ContainsFunc(common, func(key string) bool {
			rest, ok := strings.CutPrefix(key, prefix)
			return ok && isAddress(rest) == address
		})
	}
	if !has("service/", true) {
		lacks = append(lacks, "the cluster IP of the kubernetes service")
	}
	if !has("service/", false) {
		lacks = append(lacks, "the name of the kubernetes service")
	}
	if slices.Contains(m.Run.Meta.Entrances, balancerEntrance) && !has("balancer/", true) && !has("balancer/", false) {
		lacks = append(lacks, "the name or the address of the load balancer")
	}
	return lacks
}

// isAddress distinguishes an address from a name: it has a colon, or no letters.
func isAddress(s string) bool {
	return strings.Contains(s, ":") || strings.Trim(s, "0123456789.") == ""
}
