package fault

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/holdfast-ha/holdfast/framework"
)

// Isolate cuts a whole node off the network.
var Isolate Fault = isolate{}

type isolate struct{}

func (isolate) Name() string { return "isolate" }

func (isolate) Doc() Doc {
	return Doc{
		Summary: "cuts every link between a node, or the nodes of a zone, and all other parties, in both directions, without a word to either side; the nodes of a zone still reach each other",
		Targets: []string{"node", "zone"},
		Params: map[string]string{
			"keep": "parties whose links stay whole, separated by commas, such as harness; default none. " +
				"Proofs are read through the provider and, where they need the network, after healing",
			"flap": flapDoc,
		},
		Needs:   []string{"NetworkFaulter", "PowerSwitch or ProcessReporter"},
		Example: "node/leader keep=harness",
	}
}

func (f isolate) Check(c framework.Cluster, t Target, p Params) error {
	_, err := f.impairment(c, t, p)
	return err
}

func (f isolate) Inject(ctx context.Context, c framework.Cluster, t Target, p Params) (Injection, error) {
	x, err := f.impairment(c, t, p)
	if err != nil {
		return nil, err
	}
	return x.inject(ctx)
}

func (f isolate) impairment(c framework.Cluster, t Target, p Params) (*impairment, error) {
	if err := checkParams(f, p); err != nil {
		return nil, err
	}
	nodes, err := wholeNodes(f, c, t)
	if err != nil {
		return nil, err
	}
	ends, err := nodeParties(f, nodes)
	if err != nil {
		return nil, err
	}
	x, err := newCut(f, c, t, p, ends)
	if err != nil {
		return nil, err
	}
	own := nodeNames(nodes)
	others := slices.DeleteFunc(slices.Clone(x.network.Parties()), func(party string) bool { return slices.Contains(own, party) })
	keep, err := f.keep(p, others)
	if err != nil {
		return nil, err
	}
	cut := slices.DeleteFunc(slices.Clone(others), func(party string) bool { return slices.Contains(keep, party) })
	if len(cut) == 0 {
		return nil, fmt.Errorf("fault isolate: keep=%s leaves nothing to cut: leave out at least one of %s", p.Values["keep"], strings.Join(others, ", "))
	}
	x.links = linksBetween(own, cut, "both", nil)
	return x, nil
}

func (f isolate) keep(p Params, others []string) ([]string, error) {
	v := p.Values["keep"]
	if v == "" {
		return nil, nil
	}
	keep := strings.Split(v, ",")
	for i, party := range keep {
		keep[i] = strings.TrimSpace(party)
		if !slices.Contains(others, keep[i]) {
			return nil, fmt.Errorf("fault isolate: parameter keep=%q: %q is not one of %s", v, keep[i], strings.Join(others, ", "))
		}
	}
	return keep, nil
}
