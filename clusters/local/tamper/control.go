package tamper

import (
	"context"
	"fmt"
	"net/http"

	"github.com/holdfast-ha/holdfast/clusters/agenthttp"
)

// Site is one of the two proxies of a node.
type Site string

const (
	// Etcd is the proxy in front of the node's etcd member, for its API server
	// and for direct clients.
	Etcd Site = "etcd"
	// API is the proxy in front of the node's API server.
	API Site = "api"
)

// control serves the socket: PUT /SITE sets rules, GET /SITE counts what they did.
func control(desks map[Site]*desk) http.Handler {
	mux := http.NewServeMux()
	for site, d := range desks {
		agenthttp.Answer(mux, "GET /"+string(site), func(context.Context, struct{}) (any, error) { return d.acted(), nil })
		agenthttp.Answer(mux, "PUT /"+string(site), func(_ context.Context, rules []Rule) (any, error) { return nil, d.set(rules) })
	}
	return mux
}

// Client gives rules to the proxies of one node.
type Client struct {
	node   string
	server *agenthttp.Client
}

// NewClient returns a client for the proxies of a node, which listen on a socket.
func NewClient(node, socket string) *Client {
	return &Client{node: node, server: agenthttp.NewUnix("it", socket)}
}

// Set gives a proxy these rules in place of those it has; none makes it pass
// everything on. The counts begin again.
func (c *Client) Set(ctx context.Context, site Site, rules ...Rule) error {
	return c.call(ctx, http.MethodPut, site, rules, nil)
}

// Acted reports how often a proxy has tampered since its rules were set.
func (c *Client) Acted(ctx context.Context, site Site) (n int, err error) {
	err = c.call(ctx, http.MethodGet, site, nil, &n)
	return n, err
}

func (c *Client) call(ctx context.Context, method string, site Site, in, out any) error {
	defer c.server.Close()
	if err := c.server.Call(ctx, method, string(site), in, out); err != nil {
		return fmt.Errorf("failed to send rules to the %s proxy of %s: %w", site, c.node, err)
	}
	return nil
}
