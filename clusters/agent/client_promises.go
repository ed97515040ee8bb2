package agent

import (
	"context"
	"crypto/rand"
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/holdfast-ha/holdfast/framework"
)

// promise makes the agent undo a fault once ttl has passed, unless withdraw is called first.
// members are the client URLs of etcd by node.
func (c *Client) promise(ctx context.Context, handle string, u framework.Undoing, members map[string][]string, ttl time.Duration) error {
	return c.do(ctx, networkLimit, http.MethodPost, "promise", "store how to undo "+u.Fault,
		&request{Handle: handle, Name: c.node, Undoing: &u, Members: members, For: ttl}, nil)
}

// withdraw withdraws a promise; it does nothing if no promise has that handle.
func (c *Client) withdraw(ctx context.Context, handle string) error {
	return c.do(ctx, networkLimit, http.MethodPost, "withdraw", "withdraw a promise", &request{Handle: handle}, nil)
}

// Promise makes the agents of a cluster's nodes undo a fault once ttl has passed, unless
// Withdraw is called first; see framework.Promiser. members are the client URLs of etcd by
// node.
func Promise(ctx context.Context, agents []*Client, u framework.Undoing, members map[string][]string, ttl time.Duration) (handle string, err error) {
	handle = strings.ToLower(rand.Text()[:12])
	var given atomic.Bool
	err = framework.Each(agents, func(c *Client) error {
		err := c.promise(ctx, handle, u, members, ttl)
		if err == nil && (u.Node == "" || u.Node == c.node) {
			given.Store(true) // one is enough: other nodes may be down
		}
		return err
	})
	if !given.Load() {
		return "", errors.Join(err, Withdraw(context.WithoutCancel(ctx), agents, handle))
	}
	return handle, nil
}

// Withdraw withdraws a promise of the agents.
func Withdraw(ctx context.Context, agents []*Client, handle string) error {
	return framework.Each(agents, func(c *Client) error { return c.withdraw(ctx, handle) })
}
