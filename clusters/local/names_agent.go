package local

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/holdfast-ha/holdfast/framework"
)

// serveLookup answers GET /lookup?name=NAME: it looks the name up as the
// components of this machine do, which are Go programs without libc.
func (a *agent) serveLookup(w http.ResponseWriter, r *http.Request) {
	resolver := &net.Resolver{PreferGo: true}
	began := time.Now()
	addrs, err := resolver.LookupNetIP(r.Context(), "ip4", r.URL.Query().Get("name"))
	found := framework.Lookup{Addresses: addrs, Took: time.Since(began)}
	if err != nil {
		found.Problem = err.Error()
	}
	_ = json.NewEncoder(w).Encode(found)
}

func (c *agentClient) lookUp(ctx context.Context, name string) (found framework.Lookup, err error) {
	if err := c.Call(ctx, http.MethodGet, "lookup?name="+url.QueryEscape(name), nil, &found); err != nil {
		return found, fmt.Errorf("looking up %s on %s: %w", name, c.node, err)
	}
	return found, nil
}
