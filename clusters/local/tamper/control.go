package tamper

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
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
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		d := desks[Site(strings.TrimPrefix(r.URL.Path, "/"))]
		switch {
		case d == nil:
			http.NotFound(w, r)
		case r.Method == http.MethodGet:
			_ = json.NewEncoder(w).Encode(d.acted())
		default:
			var rules []Rule
			err := json.NewDecoder(r.Body).Decode(&rules)
			if err == nil {
				err = d.set(rules)
			}
			if err != nil {
				http.Error(w, err.Error(), http.StatusBadRequest)
			}
		}
	})
}

// Client gives rules to the proxies of one node.
type Client struct {
	node string
	http *http.Client
}

// NewClient returns a client for the proxies of a node, which listen on a socket.
func NewClient(node, socket string) *Client {
	return &Client{node: node, http: &http.Client{Transport: &http.Transport{DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "unix", socket)
		}}}}
}

// Set gives a proxy these rules in place of those it has; none makes it pass
// everything on. The counts begin again.
func (c *Client) Set(ctx context.Context, site Site, rules ...Rule) error {
	body, err := json.Marshal(rules)
	if err == nil {
		_, err = c.do(ctx, http.MethodPut, site, body)
	}
	return err
}

// Acted reports how often a proxy has tampered since its rules were set.
func (c *Client) Acted(ctx context.Context, site Site) (n int, err error) {
	answer, err := c.do(ctx, http.MethodGet, site, nil)
	if err == nil {
		err = json.Unmarshal(answer, &n)
	}
	return n, err
}

func (c *Client) do(ctx context.Context, method string, site Site, body []byte) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, method, "http://tamper/"+string(site), bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	res, err := c.http.Do(req)
	if err != nil {
		return nil, fmt.Errorf("telling the %s proxy of %s what to do: %w", site, c.node, err)
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode != http.StatusOK {
		err = fmt.Errorf("status %d: %s", res.StatusCode, strings.TrimSpace(string(answer)))
	}
	if err != nil {
		return nil, fmt.Errorf("telling the %s proxy of %s what to do: %w", site, c.node, err)
	}
	return answer, nil
}
