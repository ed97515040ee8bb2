package fault

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/holdfast-ha/holdfast/framework"
)

// Pause suspends everything on a node, or on all nodes of a zone or of the control
// plane at once.
var Pause Fault = pause{}

type pause struct{}

// silence is how long the API server of a node that is said to be paused is asked in
// vain: it answers within milliseconds, and who is slow is not said to be paused.
const silence = 500 * time.Millisecond

func (pause) Name() string { return "pause" }

func (pause) Doc() Doc {
	return Doc{
		Summary: "suspends everything on a node, or on all nodes of a zone or of the control plane at once, as when a hypervisor stops a virtual machine for a live migration or a snapshot: connections stay open and nobody answers on them. Afterwards all of it goes on where it was, and takes its time to notice",
		Targets: []string{"node", "zone", "nodes"},
		Needs:   []string{"Pauser"},
		Example: "node/leader",
	}
}

// suspended is one node that is to be paused.
type suspended struct {
	*outage
	pauser framework.Pauser
}

func (f pause) Check(c framework.Cluster, t Target, p Params) error {
	_, err := f.parts(c, t, p)
	return err
}

func (f pause) parts(c framework.Cluster, t Target, p Params) (all []suspended, err error) {
	if err := checkParams(f, p); err != nil {
		return nil, err
	}
	nodes, err := wholeNodes(f, c, t)
	if err != nil {
		return nil, err
	}
	for _, n := range nodes {
		s := suspended{outage: &outage{cluster: c, node: n}}
		if s.pauser, err = ability[framework.Pauser](n, "node "+n.Name(), "fault "+f.Name()); err != nil {
			return nil, err
		}
		s.power, _ = n.(framework.PowerSwitch)
		e, ok := entranceOf(c, n.Name(), framework.APIServer)
		if !ok {
			return nil, fmt.Errorf("fault %s: node %s has no API server that is an entrance, whose silence would show that the node is paused", f.Name(), n.Name())
		}
		s.entrance = &e
		all = append(all, s)
	}
	return all, nil
}

func (f pause) Inject(ctx context.Context, c framework.Cluster, t Target, p Params) (Injection, error) {
	all, err := f.parts(c, t, p)
	if err != nil {
		return nil, err
	}
	var shares []share
	for _, s := range all {
		paused, err := s.pauser.Paused(ctx)
		if err != nil {
			return nil, fmt.Errorf("asking whether node %s is paused before the fault: %w", s.node.Name(), err)
		}
		part := share{s.node, attempt{
			what:   "pause of node " + s.node.Name(),
			ask:    func(ctx context.Context) error { return s.pauser.Pause(ctx, p.TTL) },
			effect: s.still,
			undo:   s.pauser.Resume,
			healed: s.goesOn,
		}.oneRequest()}
		if paused {
			part.already = fmt.Sprintf("node %s was paused already", s.node.Name())
		}
		shares = append(shares, part)
	}
	return onNodes(ctx, t, shares)
}

// still looks whether the node is paused and its API server silent.
func (s suspended) still(ctx context.Context) (bool, string) {
	name := s.node.Name()
	paused, err := s.pauser.Paused(ctx)
	switch {
	case err != nil:
		return false, fmt.Sprintf("whether node %s is paused cannot be told: %v", name, err)
	case !paused:
		return false, fmt.Sprintf("node %s is not paused", name)
	}
	if _, status, err := sendFor(ctx, silence, *s.entrance, http.MethodGet, "/readyz", nil); err == nil {
		return false, fmt.Sprintf("node %s is paused, but its API server answers (status %d)", name, status)
	}
	return true, fmt.Sprintf("node %s is paused and its API server does not answer", name)
}

// goesOn looks whether the node works again. One that has lost its power meanwhile is
// another fault's.
func (s suspended) goesOn(ctx context.Context) (bool, string) {
	name := s.node.Name()
	if s.power != nil {
		if on, err := s.power.Powered(ctx); err == nil && !on {
			return true, fmt.Sprintf("node %s is powered off", name)
		}
	}
	paused, err := s.pauser.Paused(ctx)
	switch {
	case err != nil:
		return false, fmt.Sprintf("whether node %s is paused cannot be told: %v", name, err)
	case paused:
		return false, fmt.Sprintf("node %s is paused", name)
	}
	return s.serves(fmt.Sprintf("node %s goes on", name))(ctx)
}
