package local

import (
	"context"
	"fmt"
	"net/http"

	"github.com/holdfast-ha/holdfast/clusters/agenthttp"
	"github.com/holdfast-ha/holdfast/framework"
)

// do tells the agent to do something with a component. All but a stop, which
// waits for as long as the component takes, is done at once.
func (c *agentClient) do(ctx context.Context, verb string, req agentRequest) error {
	limit := agentLimit
	if verb == "stop" {
		limit += stopGrace
	}
	ctx, cancel := agenthttp.Within(ctx, limit)
	defer cancel()
	if err := c.Call(ctx, http.MethodPost, verb, req, nil); err != nil {
		what := string(req.Component)
		if what == "" {
			what = "a load"
		}
		return fmt.Errorf("%s of %s on %s: %w", verb, what, c.node, err)
	}
	return nil
}

func (c *agentClient) processes(ctx context.Context) ([]framework.Process, error) {
	var all []framework.Process
	if err := c.Call(ctx, http.MethodGet, "processes", nil, &all); err != nil {
		return nil, fmt.Errorf("asking what runs on %s: %w", c.node, err)
	}
	return all, nil
}
