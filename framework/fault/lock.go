package fault

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/holdfast-ha/holdfast/framework"
)

// lock returns the key of the lock under which a component runs, empty if it elects its active
// instance itself.
func (c resolver) lock(component framework.Component) string {
	if r, ok := c.Cluster.(framework.LockReporter); ok {
		return r.Locks()[component]
	}
	return ""
}

// lockHolder returns the node that holds a component's lock and runs it.
func (c resolver) lockHolder(ctx context.Context, k kind, key string) (string, error) {
	var name string
	_, held, seen := await(ctx, resolveLimit, func(ctx context.Context) (bool, string) {
		holder, err := c.readLock(ctx, key)
		if err != nil {
			return false, err.Error()
		}
		nodes := c.Nodes()
		i := slices.IndexFunc(nodes, func(n framework.Node) bool { return n.Name() == holder })
		if i < 0 {
			return false, fmt.Sprintf("the lock of %s is held by %q, which is not one of the nodes %s", k.component, holder, strings.Join(framework.NodeNames(nodes), ", "))
		}
		if down := c.down(ctx, nodes[i], k.component); down != "" {
			return false, fmt.Sprintf("%s holds the lock of %s, but %s", holder, k.component, down)
		}
		name = holder
		return true, ""
	})
	if !held {
		return "", fmt.Errorf("%w: %s", errNobody, seen)
	}
	return name, nil
}

// readLock reads a lock through whichever member answers first: one that is cut off never
// answers.
func (c resolver) readLock(ctx context.Context, key string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, tryLimit)
	defer cancel()
	nodes := framework.NodesWith(c, framework.Etcd)
	type answer struct {
		holder string
		err    error
	}
	answers := make(chan answer, len(nodes))
	for _, n := range nodes {
		m, err := openMember(c.Cluster, n.Name())
		if err != nil {
			return "", err
		}
		go func() {
			defer m.Client.Close()
			held, err := m.Client.Get(ctx, key)
			switch {
			case err != nil:
				answers <- answer{err: fmt.Errorf("failed to read %s through etcd on %s: %w", key, n.Name(), err)}
			case len(held.Kvs) == 0:
				answers <- answer{}
			default:
				answers <- answer{holder: string(held.Kvs[0].Value)}
			}
		}()
	}
	problem := fmt.Errorf("no node runs etcd, which stores the lock %s", key)
	for range nodes {
		a := <-answers
		switch {
		case a.err != nil:
			problem = a.err
		case a.holder == "":
			return "", fmt.Errorf("%s has no holder", key)
		default:
			return a.holder, nil
		}
	}
	return "", problem
}
