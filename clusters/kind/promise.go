package kind

import (
	"context"
	"fmt"
	"time"

	"github.com/holdfast-ha/holdfast/clusters/agent"
	"github.com/holdfast-ha/holdfast/framework"
)

var _ framework.Promiser = (*Cluster)(nil)

// CheckPromise implements framework.Promiser. A cluster that holdfast did not create refuses
// promises that could lose data permanently.
func (c *Cluster) CheckPromise(u framework.Undoing) error {
	if u.Lossy && c.foreign {
		return fmt.Errorf("cluster %s was not created by holdfast, and data that %s loses cannot be recovered", c.Name(), u.Fault)
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
	return agent.Promise(ctx, c.agents(), u, members, ttl)
}

// Withdraw implements framework.Promiser.
func (c *Cluster) Withdraw(ctx context.Context, handle string) error {
	return agent.Withdraw(ctx, c.agents(), handle)
}

// agents returns those of the control-plane nodes.
func (c *Cluster) agents() (all []*agent.Client) {
	for _, n := range c.controlPlane() {
		all = append(all, n.Client)
	}
	return all
}
