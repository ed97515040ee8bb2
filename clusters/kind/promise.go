package kind

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-ha/holdfast/framework"
)

var _ framework.Promiser = (*Cluster)(nil)

// CheckPromise implements framework.Promiser. A cluster that holdfast did not make promises
// nothing where data would be lost for good.
func (c *Cluster) CheckPromise(u framework.Undoing) error {
	if u.Lossy && c.foreign {
		return fmt.Errorf("cluster %s was not made by holdfast, and what %s loses does not come back", c.Name(), u.Fault)
	}
	return nil
}

// Promise implements framework.Promiser: the agents of all control-plane nodes promise it.
func (c *Cluster) Promise(ctx context.Context, u framework.Undoing, ttl time.Duration) (string, error) {
	if err := c.CheckPromise(u); err != nil {
		return "", err
	}
	members := map[string][]string{}
	for _, n := range c.controlPlane() {
		members[n.name] = c.etcdAt(n).Endpoints
	}
	handle := strings.ToLower(rand.Text()[:12])
	var given atomic.Bool
	err := c.eachAgent(func(n *node) error {
		err := n.Client.Promise(ctx, handle, u, members, ttl)
		if err == nil && (u.Node == "" || u.Node == n.name) {
			given.Store(true) // one is enough: other nodes may be down
		}
		return err
	})
	if !given.Load() {
		return "", errors.Join(err, c.Withdraw(context.WithoutCancel(ctx), handle))
	}
	return handle, nil
}

// Withdraw implements framework.Promiser.
func (c *Cluster) Withdraw(ctx context.Context, handle string) error {
	return c.eachAgent(func(n *node) error { return n.Client.Withdraw(ctx, handle) })
}

// eachAgent does something with the agent of each control-plane node at once.
func (c *Cluster) eachAgent(do func(*node) error) error {
	nodes := c.controlPlane()
	errs := make([]error, len(nodes))
	var all sync.WaitGroup
	for i, n := range nodes {
		all.Go(func() { errs[i] = do(n) })
	}
	all.Wait()
	return errors.Join(errs...)
}
