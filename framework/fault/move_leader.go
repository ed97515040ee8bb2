package fault

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-ha/holdfast/framework"
)

// MoveLeader makes the etcd leader hand its leadership to another member.
var MoveLeader Fault = moveLeader{}

type moveLeader struct{}

func (moveLeader) Name() string { return "move-leader" }

func (moveLeader) Doc() Doc {
	return Doc{
		Summary: "makes the etcd leader hand its leadership to another member; healing leaves it there",
		Targets: []string{"etcd/leader"},
		Params:  map[string]string{"to": "node of the member that is to lead; default the next node in the order of joining"},
		Needs:   []string{"EtcdAccess"},
		Example: "etcd/leader",
	}
}

func (f moveLeader) Check(c framework.Cluster, t Target, p Params) error {
	_, err := f.to(c, t, p)
	return err
}

// to returns the node that is to lead.
func (f moveLeader) to(c framework.Cluster, t Target, p Params) (string, error) {
	if err := checkParams(f, p); err != nil {
		return "", err
	}
	if t.Component != framework.Etcd {
		return "", fmt.Errorf("fault move-leader: target %s is not etcd: it takes etcd/leader", t.Asked)
	}
	if _, _, err := componentHolder(f, c, t); err != nil {
		return "", err
	}
	if _, err := ability[framework.EtcdAccess](c, "cluster "+c.Name(), "fault move-leader"); err != nil {
		return "", err
	}
	nodes := nodeNames(nodesWith(c, framework.Etcd))
	if len(nodes) < 2 {
		return "", fmt.Errorf("fault move-leader: node %s has the only etcd member: there is none to hand leadership to", t.Node)
	}
	at := slices.Index(nodes, t.Node)
	others := slices.Delete(slices.Clone(nodes), at, at+1)
	switch to := p.Values["to"]; {
	case to == "":
		return nodes[(at+1)%len(nodes)], nil
	case !slices.Contains(others, to):
		return "", fmt.Errorf("fault move-leader: parameter to=%q: it must be one of %s", to, strings.Join(others, ", "))
	default:
		return to, nil
	}
}

func (f moveLeader) Inject(ctx context.Context, c framework.Cluster, t Target, p Params) (Injection, error) {
	to, err := f.to(c, t, p)
	if err != nil {
		return nil, err
	}
	all, err := openMembers(c)
	if err != nil {
		return nil, fmt.Errorf("fault move-leader: %w", err)
	}
	defer all.close()
	before, err := all.leadership(ctx)
	if err != nil {
		return nil, fmt.Errorf("fault move-leader: before the fault: %w", err)
	}
	if before.leader != t.Node {
		return notInjected(t, "etcd on %s was not the leader any more: %s", t.Node, before), nil
	}
	target, ok := before.ids[to]
	if !ok { // the majority that answered first was without it
		s, err := all.on(to).status(ctx)
		if err != nil {
			return nil, fmt.Errorf("fault move-leader: asking for the member that is to lead: %w", err)
		}
		target = s.Header.MemberId
	}
	return attempt{
		target: t,
		what:   fmt.Sprintf("moving etcd's leadership from %s to %s", t.Node, to),
		ask: func(ctx context.Context) error {
			ctx, cancel := context.WithTimeout(ctx, moveLimit)
			defer cancel()
			_, err := all.on(t.Node).client.MoveLeader(ctx, target)
			return err
		},
		effect: func(ctx context.Context) (bool, string) {
			now, err := all.leadership(ctx)
			if err != nil {
				return false, err.Error()
			}
			return now.leader == to && now.term > before.term, fmt.Sprintf("%s, after %s in term %d", now, before.leader, before.term)
		},
	}.nothingToUndo("leadership stays where the members have it").injection(ctx)
}

// moveLimit is how long a transfer may take. etcd itself gives up after an
// election timeout.
const moveLimit = 10 * time.Second

// nodesWith returns the nodes that are meant to run a component.
func nodesWith(c framework.Cluster, component framework.Component) []framework.Node {
	return slices.DeleteFunc(slices.Clone(c.Nodes()), func(n framework.Node) bool {
		return !slices.Contains(n.Components(), component)
	})
}
