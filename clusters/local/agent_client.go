package local

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/holdfast-ha/holdfast/framework"
)

func (c *agentClient) do(ctx context.Context, verb string, component framework.Component, d time.Duration) error {
	b, err := json.Marshal(agentRequest{Component: component, For: d})
	if err != nil {
		return err
	}
	resp, err := c.send(ctx, http.MethodPost, verb, b)
	if err != nil {
		return fmt.Errorf("%s of %s on %s: %w", verb, component, c.node, err)
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

func (c *agentClient) send(ctx context.Context, method, path string, body []byte) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, "http://agent/"+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		defer resp.Body.Close()
		words, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<10))
		return nil, fmt.Errorf("%s", strings.TrimSpace(string(words)))
	}
	return resp, nil
}
