package fault

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/record"
	"github.com/holdfast-ha/holdfast/framework/workload/client"
)

// silence is how long requests to the API server of a node that is reported as paused must go
// unanswered: normally it answers within milliseconds, and a slow node is not reported as paused.
const silence = 500 * time.Millisecond

// Pause suspends everything on a node, or on all nodes of a zone or of the control plane at the
// same time.
var Pause = &Fault{
	Name:    "pause",
	Summary: "suspends everything on a node, or on all nodes of a zone or of the control plane at the same time, as when a hypervisor stops a virtual machine for a live migration or a snapshot: connections stay open, and nothing answers on them. Afterwards everything continues where it was, and notices the gap late",
	Targets: []string{"node", "zone", "nodes"},
	Needs:   []string{"Pauser"},
	Example: "node/leader",
	Effects: does(record.EffectFrozen),
	Prepare: func(r Request) (Inject, error) {
		all, err := r.suspended()
		return func(ctx context.Context) (Injection, error) { return injectPause(ctx, r, all) }, err
	},
}

// suspended is one node that is to be paused.
type suspended struct {
	*outage
	pauser framework.Pauser
}

func (r Request) suspended() (all []suspended, err error) {
	nodes, err := r.nodes()
	if err != nil {
		return nil, err
	}
	for _, n := range nodes {
		s := suspended{outage: &outage{cluster: r.Cluster, node: n}}
		if s.pauser, err = onNode[framework.Pauser](r, n); err != nil {
			return nil, err
		}
		s.power, _ = n.(framework.PowerSwitch)
		e, ok := entranceOf(r.Cluster, n.Name(), framework.APIServer)
		if !ok {
			return nil, fmt.Errorf("node %s has no API server that is an entrance, whose silence would show that the node is paused", n.Name())
		}
		s.entrance = &e
		all = append(all, s)
	}
	return all, nil
}

func injectPause(ctx context.Context, r Request, all []suspended) (Injection, error) {
	var shares []share
	for _, s := range all {
		paused, err := s.pauser.Paused(ctx)
		if err != nil {
			return nil, fmt.Errorf("failed to ask whether node %s is paused before the fault: %w", s.node.Name(), err)
		}
		part := share{s.node, attempt{
			what:   "pause of node " + s.node.Name(),
			ask:    func(ctx context.Context) error { return s.pauser.Pause(ctx, r.TTL) },
			effect: s.still,
			lasts:  s.lasts,
			undo:   s.pauser.Resume,
			healed: s.goesOn,
		}.oneRequest()}
		if paused {
			part.already = fmt.Sprintf("node %s was already paused", s.node.Name())
		}
		shares = append(shares, part)
	}
	return onNodes(ctx, r.Target, shares)
}

// still checks whether the node is paused and its API server does not answer.
func (s suspended) still(ctx context.Context) (bool, string) {
	name := s.node.Name()
	paused, err := s.pauser.Paused(ctx)
	switch {
	case err != nil:
		return false, fmt.Sprintf("it is unknown whether node %s is paused: %v", name, err)
	case !paused:
		return false, fmt.Sprintf("node %s is not paused", name)
	}
	if _, status, err := sendFor(ctx, silence, *s.entrance, client.Request{Method: http.MethodGet, Path: "/readyz"}); err == nil {
		return false, fmt.Sprintf("node %s is paused, but its API server answers (status %d)", name, status)
	}
	return true, fmt.Sprintf("node %s is paused and its API server does not answer", name)
}

// lasts checks whether the node is still paused, unless it has no power.
func (s suspended) lasts(ctx context.Context) (bool, string) {
	paused, err := s.pauser.Paused(ctx)
	if err == nil && !paused && s.power != nil {
		on, powerErr := s.power.Powered(ctx)
		paused, err = !on, powerErr
	}
	return err != nil || paused, fmt.Sprintf("node %s was not paused", s.node.Name())
}

// goesOn checks whether the node works again. If it has lost its power since, it is up to another
// fault.
func (s suspended) goesOn(ctx context.Context) (bool, string) {
	name := s.node.Name()
	if framework.PoweredOff(ctx, s.node) {
		return true, fmt.Sprintf("node %s is powered off", name)
	}
	paused, err := s.pauser.Paused(ctx)
	switch {
	case err != nil:
		return false, fmt.Sprintf("it is unknown whether node %s is paused: %v", name, err)
	case paused:
		return false, fmt.Sprintf("node %s is paused", name)
	}
	return s.serves(fmt.Sprintf("node %s continues", name))(ctx)
}
