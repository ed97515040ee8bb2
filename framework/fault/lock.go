package fault

import (
	"context"
	"fmt"
	"slices"
	"strings"

	clientv3 "go.etcd.io/etcd/client/v3"

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
	return awaitNode(ctx, func(ctx context.Context) (string, error) {
		holder, err := c.readLock(ctx, key)
		if err != nil {
			return "", err
		}
		nodes := c.Nodes()
		i := slices.IndexFunc(nodes, func(n framework.Node) bool { return n.Name() == holder })
		if i < 0 {
			return "", fmt.Errorf("the lock of %s is held by %q, which is not one of the nodes %s", k.component, holder, strings.Join(framework.NodeNames(nodes), ", "))
		}
		if down := c.down(ctx, nodes[i], k.component); down != "" {
			return "", fmt.Errorf("%s holds the lock of %s, but %s", holder, k.component, down)
		}
		return holder, nil
	})
}

// readLock reads a lock through whichever member answers first: one that is cut off never
// answers.
func (c resolver) readLock(ctx context.Context, key string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, tryLimit)
	defer cancel()
	all, err := openMembers(c.Cluster)
	if err != nil {
		return "", fmt.Errorf("failed to read the lock %s: %w", key, err)
	}
	defer all.Close()
	type answer struct {
		*clientv3.GetResponse
		err error
	}
	answers := make(chan answer, len(all))
	for _, m := range all {
		go func() {
			held, err := m.Client.Get(ctx, key)
			if err != nil {
				err = fmt.Errorf("failed to read %s through etcd on %s: %w", key, m.Node, err)
			}
			answers <- answer{held, err}
		}()
	}
	for range all {
		a := <-answers
		switch {
		case a.err != nil:
			err = a.err
		case len(a.Kvs) == 0 || len(a.Kvs[0].Value) == 0:
			return "", fmt.Errorf("%s has no holder", key)
		default:
			return string(a.Kvs[0].Value), nil
		}
	}
	return "", err
}
