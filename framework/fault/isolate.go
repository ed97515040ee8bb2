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
		Summary: "cuts every link between a node and all other parties, in both directions, without a word to either side",
		Targets: []string{"node"},
		Params: map[string]string{"keep": "parties whose links stay whole, separated by commas, such as harness; default none. " +
			"Proofs are read through the provider and, where they need the network, after healing"},
		Needs:   []string{"NetworkFaulter", "PowerSwitch or ProcessReporter"},
		Example: "node/leader keep=harness",
	}
}

func (f isolate) Check(c framework.Cluster, t Target, p Params) error {
	_, err := f.cut(c, t, p)
	return err
}

func (f isolate) Inject(ctx context.Context, c framework.Cluster, t Target, p Params) (Injection, error) {
	cut, err := f.cut(c, t, p)
	if err != nil {
		return nil, err
	}
	return cut.inject(ctx)
}

func (f isolate) cut(c framework.Cluster, t Target, p Params) (*cut, error) {
	if err := checkParams(f, p); err != nil {
		return nil, err
	}
	n, err := wholeNode(f, c, t)
	if err != nil {
		return nil, err
	}
	cut, err := newCut(f, c, n, t, p)
	if err != nil {
		return nil, err
	}
	others := slices.DeleteFunc(slices.Clone(cut.network.Parties()), func(party string) bool { return party == n.Name() })
	keep, err := f.keep(p, others)
	if err != nil {
		return nil, err
	}
	for _, party := range others {
		if !slices.Contains(keep, party) {
			cut.links = append(cut.links, framework.Link{From: n.Name(), To: party}, framework.Link{From: party, To: n.Name()})
		}
	}
	if len(cut.links) == 0 {
		return nil, fmt.Errorf("fault isolate: keep=%s leaves nothing to cut: leave out at least one of %s", p.Values["keep"], strings.Join(others, ", "))
	}
	cut.components = n.Components()
	return cut, nil
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
