package local

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/rest"

	"github.com/holdfast-ha/holdfast/clusters/local/component"
	"github.com/holdfast-ha/holdfast/framework"
)

// readyLimit is how long a cluster may take from power-on until it is ready.
// It takes seconds; the limit is for machines that are very slow.
const readyLimit = 3 * time.Minute

// Ready returns when every API server is ready, directly and through the
// balancer, the simulated nodes exist and each elected component has a holder
// (where leader election is on).
func (c *Cluster) Ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, readyLimit, fmt.Errorf("not ready after %s", readyLimit))
	defer cancel()
	began := time.Now()
	since := func() string { return time.Since(began).Round(10 * time.Millisecond).String() }

	g, gctx := errgroup.WithContext(ctx)
	for _, e := range c.Entrances() {
		g.Go(func() error {
			if _, err := c.await(gctx, e, "/readyz", nothingMore); err != nil {
				return fmt.Errorf("%s %s is not ready: %w; see %s", e.Kind, e.Name, err, c.o.LogDir)
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	c.o.Progress("API servers ready after " + since())
	if err := c.startWorkers(ctx); err != nil {
		return err
	}
	for _, elected := range []framework.Component{framework.ControllerManager, framework.Scheduler} {
		if !c.elects(elected) {
			continue
		}
		path := "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/" + string(elected)
		if _, err := c.await(ctx, c.Entrances()[0], path, holderSet); err != nil {
			return fmt.Errorf("no %s leads: %w", elected, err)
		}
	}
	if err := c.awaitSupervised(ctx); err != nil {
		return err
	}
	c.o.Progress("leases held after " + since())
	return nil
}

// elects tells whether leader election is on for a component on every node.
func (c *Cluster) elects(component framework.Component) bool {
	for _, n := range c.controlPlane() {
		if value, ok := n.spec.ExtraArgs[component]["leader-elect"]; ok {
			if on, err := strconv.ParseBool(value); err == nil && !on {
				return false
			}
		}
	}
	return true
}

// awaitSupervised returns when each component that a supervisor elects runs somewhere.
func (c *Cluster) awaitSupervised(ctx context.Context) error {
	for name := range c.Locks() {
		err := poll(ctx, 25*time.Millisecond, func(ctx context.Context) error {
			for _, n := range c.nodes {
				if p, err := n.Process(ctx, name); err == nil && p.PID != 0 {
					return nil
				}
			}
			return fmt.Errorf("no %s runs: no supervisor has taken its lock; see podmaster.log in %s/logs", name, c.o.Dir)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func holderSet(body []byte) error {
	var lease struct {
		Spec struct{ HolderIdentity string }
	}
	if err := json.Unmarshal(body, &lease); err != nil {
		return err
	}
	if lease.Spec.HolderIdentity == "" {
		return errors.New("its lease has no holder")
	}
	return nil
}

// startWorkers starts kwok and makes the nodes that it simulates.
func (c *Cluster) startWorkers(ctx context.Context) error {
	if c.workers == nil {
		return nil
	}
	if err := c.workers.powerOn(ctx); err != nil {
		return err
	}
	nodes, err := component.WorkerNodes(c.spec.Spec.Workers)
	if err != nil {
		return err
	}
	client, err := entranceClient(c.Entrances()[0].Config)
	if err != nil {
		return err
	}
	defer client.CloseIdleConnections()
	for _, n := range nodes {
		err := poll(ctx, 50*time.Millisecond, func(ctx context.Context) error {
			_, err := request(ctx, client, http.MethodPost, c.Entrances()[0].Config.Host+"/api/v1/nodes", string(n))
			var status statusError
			if errors.As(err, &status) && status.code == http.StatusConflict {
				return nil
			}
			return err
		})
		if err != nil {
			return fmt.Errorf("making the simulated nodes: %w", err)
		}
	}
	return nil
}

// await asks an entrance for path until the answer is 200 and good likes it.
func (c *Cluster) await(ctx context.Context, e framework.Entrance, path string, good func([]byte) error) ([]byte, error) {
	client, err := entranceClient(e.Config)
	if err != nil {
		return nil, err
	}
	defer client.CloseIdleConnections()
	var body []byte
	err = poll(ctx, 25*time.Millisecond, func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
		var err error
		if body, err = request(ctx, client, http.MethodGet, e.Config.Host+path, ""); err != nil {
			return err
		}
		return good(body)
	})
	return body, err
}

// entranceClient returns a client whose connections end with it, when its idle
// ones are closed. Those of client-go cannot be closed: its wrappers hide how, and
// its cache forgets them while they stay open for another minute and a half.
func entranceClient(config *rest.Config) (*http.Client, error) {
	tls, err := rest.TLSConfigFor(config)
	if err != nil {
		return nil, err
	}
	return &http.Client{Transport: &http.Transport{DialContext: config.Dial, TLSClientConfig: tls}}, nil
}

// statusError is an answer other than 2xx.
type statusError struct {
	code int
	body string
}

func (e statusError) Error() string { return fmt.Sprintf("HTTP %d: %s", e.code, e.body) }

func request(ctx context.Context, client *http.Client, method, url, body string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil {
		return nil, err
	}
	if resp.StatusCode/100 != 2 {
		return nil, statusError{resp.StatusCode, strings.TrimSpace(string(b[:min(len(b), 300)]))}
	}
	return b, nil
}
