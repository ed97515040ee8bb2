package local

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-ha/holdfast/framework"
)

// do tells the agent to do something with a component. All but a stop, which
// waits for as long as the component takes, is done at once.
func (c *agentClient) do(ctx context.Context, verb string, req agentRequest) error {
	limit := agentLimit
	if verb == "stop" {
		limit += stopGrace
	}
	ctx, cancel := within(ctx, limit)
	defer cancel()
	b, err := json.Marshal(req)
	if err != nil {
		return err
	}
	resp, err := c.send(ctx, http.MethodPost, verb, b)
	if err != nil {
		what := string(req.Component)
		if what == "" {
			what = "a load"
		}
		return fmt.Errorf("%s of %s on %s: %w", verb, what, c.node, err)
	}
	return resp.Body.Close()
}

func (c *agentClient) processes(ctx context.Context) ([]framework.Process, error) {
	resp, err := c.send(ctx, http.MethodGet, "processes", nil)
	if err != nil {
		return nil, fmt.Errorf("asking what runs on %s: %w", c.node, err)
	}
	defer resp.Body.Close()
	var all []framework.Process
	if err := json.NewDecoder(resp.Body).Decode(&all); err != nil {
		return nil, fmt.Errorf("asking what runs on %s: %w", c.node, err)
	}
	return all, nil
}

// within limits how long an agent may take for an answer.
func within(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, limit, fmt.Errorf("no answer within %s", limit))
}

func (c *agentClient) send(ctx context.Context, method, path string, body []byte) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, "http://agent/"+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	if until, ok := ctx.Deadline(); ok {
		req.Header.Set(untilHeader, strconv.FormatInt(until.UnixNano(), 10))
	}
	resp, err := c.http.Do(req)
	if err != nil {
		if ctx.Err() != nil {
			return nil, fmt.Errorf("its node agent does not answer: %w", context.Cause(ctx))
		}
		return nil, fmt.Errorf("its node agent cannot be reached: %w", err)
	}
	if resp.StatusCode != http.StatusOK {
		defer resp.Body.Close()
		words, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<10))
		said := strings.TrimSpace(string(words))
		if resp.StatusCode == nothingDoneStatus {
			return nil, nothingDone(said)
		}
		return nil, errors.New(said)
	}
	return resp, nil
}
