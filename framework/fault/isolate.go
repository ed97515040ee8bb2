package fault

import (
	"fmt"
	"slices"
	"strings"

	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/record"
)

// Isolate cuts whole nodes off the network.
var Isolate = network(&Fault{
	Name:    "isolate",
	Summary: "cuts every link between a node, or the nodes of a zone, and all other parties, in both directions, without notice to either side; the nodes of a zone still reach each other",
	Targets: []string{"node", "zone"},
	Params: []Param{
		partiesParam("keep", "parties whose links stay intact, separated by commas, such as harness. "+
			"Proofs are read through the provider and, where they need the network, after healing").unless("none"),
		flapParam,
	},
	Needs:   []string{"NetworkFaulter", "PowerSwitch or ProcessReporter"},
	Example: "node/leader keep=harness",
	Effects: isolates,
}, isolation)

// isolates returns the effects of an isolation. One that flaps, or that keeps the links to another
// node, leaves the target a peer.
func isolates(values map[string]string) []record.Effect {
	hosts := []string{"", framework.HarnessHost, framework.BalancerHost, framework.WorkersHost}
	for party := range strings.SplitSeq(values["keep"], ",") {
		if values["flap"] != "" || !slices.Contains(hosts, strings.TrimSpace(party)) {
			return []record.Effect{record.EffectNetwork, record.EffectPartitioned}
		}
	}
	return []record.Effect{record.EffectNetwork, record.EffectIsolated}
}

func isolation(r Request) (*impairment, error) {
	nodes, err := r.nodes()
	if err != nil {
		return nil, err
	}
	ends, err := r.nodeParties(nodes)
	if err != nil {
		return nil, err
	}
	x, err := r.cut(ends)
	if err != nil {
		return nil, err
	}
	own := framework.NodeNames(nodes)
	others := slices.DeleteFunc(slices.Clone(x.network.Parties()), func(party string) bool { return slices.Contains(own, party) })
	cut := slices.Clone(others)
	if v := r.Values["keep"]; v != "" {
		for party := range strings.SplitSeq(v, ",") {
			party = strings.TrimSpace(party)
			if !slices.Contains(others, party) {
				return nil, fmt.Errorf("parameter keep=%q: %q is not one of %s", v, party, listed(others))
			}
			cut = slices.DeleteFunc(cut, func(p string) bool { return p == party })
		}
		if len(cut) == 0 {
			return nil, fmt.Errorf("keep=%s leaves nothing to cut: leave out at least one of %s", v, listed(others))
		}
	}
	x.links = linksBetween(own, cut, "both", nil)
	return x, nil
}
