package remote

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/holdfast-ha/holdfast/clusters"
	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/nearest"
)

// NodeProfile describes how a node runs its components.
type NodeProfile struct {
	Node string `json:"node"`
	// Profile is the name of the distribution profile; empty if none fits.
	Profile string `json:"profile,omitempty"`
	// Refused lists the profiles that were tried before and why they do not fit.
	Refused []RefusedProfile `json:"refused,omitempty"`
	// Components are those of the profile.
	Components []NodeComponent `json:"components,omitempty"`
	// EtcdData and Audit are the paths of the member's data and of the audit log; empty if the
	// node has none.
	EtcdData string `json:"etcdData,omitempty"`
	Audit    string `json:"audit,omitempty"`
	// Settings are the arguments from which bounds are computed, by component and flag.
	Settings clusters.ExtraArgs `json:"settings,omitempty"`
}

// RefusedProfile is a profile that does not fit a node.
type RefusedProfile struct {
	Profile string `json:"profile"`
	// Why names the process, parent, port, manifest or unit that does not match the profile.
	Why string `json:"why"`
}

// NodeComponent is a component as a profile finds it.
type NodeComponent struct {
	Name framework.Component `json:"name"`
	// PID is its process's PID; 0 if the node does not run the component.
	PID int `json:"pid,omitempty"`
	// Command and Parent are the names of its process and of that process's parent.
	Command string `json:"command,omitempty"`
	Parent  string `json:"parent,omitempty"`
	// Manifest is the file of its static pod, Unit its systemd unit.
	Manifest string `json:"manifest,omitempty"`
	Unit     string `json:"unit,omitempty"`
	// With are the components that run in the same process.
	With []framework.Component `json:"with,omitempty"`
	// KeptDown describes how it is held down.
	KeptDown string `json:"keptDown,omitempty"`
}

// Inspect inspects a node of an inventory and returns how it runs its components: by a given
// profile, or by the first one that fits if the profile is "auto". It changes nothing. If no
// profile fits, the error is nil and NodeProfile.Profile empty.
func Inspect(ctx context.Context, i *clusters.Inventory, node, profile string) (NodeProfile, error) {
	at := slices.IndexFunc(i.Spec.Nodes, func(n clusters.InventoryNode) bool { return n.Name == node })
	if at < 0 {
		all := framework.Names(i.Spec.Nodes, func(n clusters.InventoryNode) string { return n.Name })
		return NodeProfile{}, fmt.Errorf("the inventory has no node %s%s: want %s", node, nearest.Meant(all, node), strings.Join(all, ", "))
	}
	if !i.Reachable() {
		return NodeProfile{}, fmt.Errorf("the inventory does not say how %s is reached: add ssh to its nodes", node)
	}
	shells, done, err := shells(i)
	if err != nil {
		return NodeProfile{}, err
	}
	defer done()
	s, err := shells[node].lookFor(ctx, profile, i.Spec.Nodes[at])
	if err != nil {
		return NodeProfile{}, err
	}
	return inspect(i.Spec.Nodes[at], profile, s, func(f *found) error { return f.readConfig(ctx, shells[node]) })
}

// inspect returns how a node as it was seen runs its components.
func inspect(n clusters.InventoryNode, profile string, s *sight, configure func(*found) error) (NodeProfile, error) {
	seen := NodeProfile{Node: n.Name}
	for _, name := range profilesFor(profile, n) {
		p, err := profileOf(name)
		if err != nil {
			return seen, err
		}
		f, err := p.fit(n, s)
		if err != nil {
			seen.Refused = append(seen.Refused, RefusedProfile{p.Name, err.Error()})
			continue
		}
		if err := configure(f); err != nil {
			return seen, err
		}
		seen.Profile = p.Name
		f.describe(&seen)
		break
	}
	return seen, nil
}

// describe adds what was found.
func (f *found) describe(to *NodeProfile) {
	c := f.config()
	to.EtcdData, to.Audit, to.Settings = c.EtcdData, c.Audit, argsOf(f.processes)
	for _, one := range f.profile.Components {
		p, ok := f.processes[one.Name]
		if !ok {
			to.Components = append(to.Components, NodeComponent{Name: one.Name})
			continue
		}
		seen := NodeComponent{Name: one.Name, PID: p.pid, Command: p.name(), Parent: f.sight.nameOf(p.parent), Manifest: one.Manifest, Unit: f.units[one.Name]}
		seen.With = slices.DeleteFunc(f.Group(one.Name), func(other framework.Component) bool { return other == one.Name })
		switch {
		case one.Manifest != "":
			seen.KeptDown = "its shim is stopped"
		case seen.Unit != "":
			seen.KeptDown = "systemctl stop"
		default:
			seen.KeptDown = "killed at each start"
		}
		to.Components = append(to.Components, seen)
	}
}
