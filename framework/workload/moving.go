package workload

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/record"
	"github.com/holdfast-ha/holdfast/framework/workload/client"
)

const (
	// movingKey is the register that MovingReads is about.
	movingKey = "moving"
	// movingRounds is how often MovingReads goes round all API servers.
	movingRounds = 8
	movingPause  = 150 * time.Millisecond
	// movingTimeout is how long one of its requests may take, movingLimit all of it.
	movingTimeout = time.Second
	movingLimit   = 5 * time.Second
)

// PrepareMoving writes the register that MovingReads reads, and reads it through each API server,
// so that all have it. Call it before the isolation that MovingReads needs.
func PrepareMoving(ctx context.Context, c framework.Cluster, w *record.Writer) error {
	setup, cancel := context.WithTimeout(ctx, setupLimit)
	defer cancel()
	if err := EnsureNamespace(setup, apiServers(c.Entrances()), DefaultNamespace); err != nil {
		return fmt.Errorf("failed to prepare moving reads: %w", err)
	}
	all, err := movingClients(c, w)
	if err != nil {
		return err
	}
	defer closeAll(all)
	for range stepTries {
		value := content{value: "prepared-" + fresh()}
		op := all[0].create(ctx, movingKey, value)
		if op.Outcome != record.OK {
			op = all[0].patch(ctx, movingKey, value) // it exists from an earlier run
		}
		if op.Outcome == record.OK || !client.Pause(ctx, movingPause) {
			break
		}
	}
	for _, r := range all {
		if op := r.get(ctx, movingKey); !op.Found {
			return fmt.Errorf("failed to prepare moving reads: register %s cannot be read through %s: %s", movingKey, r.entrance, op.Error)
		}
	}
	return w.Err()
}

// MovingReads is for the time in which the etcd member on node is isolated. One client reads a
// register with resourceVersion=0 (purpose "moving-read") through the other API servers and then
// through that of node, 8 times over. The register is written through one of the others before
// each round (purpose "moving-write"). It takes about 2 s, and at most movingLimit: an API server
// whose cache has lost its watch may not answer.
func MovingReads(ctx context.Context, c framework.Cluster, node string, w *record.Writer) error {
	all, err := movingClients(c, w)
	if err != nil {
		return err
	}
	defer closeAll(all)
	var others, isolated []*registers
	for _, r := range all {
		if r.entrance == node {
			isolated = append(isolated, r)
		} else {
			others = append(others, r)
		}
	}
	if len(isolated) == 0 || len(others) == 0 {
		return fmt.Errorf("moving reads: an API server on node %q and another one are required", node)
	}
	ctx, cancel := context.WithTimeout(ctx, movingLimit)
	defer cancel()
	for n := range movingRounds {
		others[n%len(others)].patch(ctx, movingKey, content{value: "round-" + fresh()})
		for _, r := range append(others, isolated...) {
			r.getAny(ctx, movingKey)
		}
		if !client.Pause(ctx, movingPause) {
			break
		}
	}
	return w.Err()
}

// movingClients returns a client of each API server. As readers they are one and the
// same client, which moves.
func movingClients(c framework.Cluster, w *record.Writer) ([]*registers, error) {
	var all []*registers
	for _, e := range apiServers(c.Entrances()) {
		r, err := newRegisters(e, w, "moving", DefaultNamespace, "moving-write", movingTimeout)
		if err != nil {
			closeAll(all)
			return nil, fmt.Errorf("moving reads: %w", err)
		}
		all = append(all, r)
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("moving reads: cluster %s has no API server", c.Name())
	}
	return all, nil
}

// getAny reads a register with resourceVersion=0 (purpose "moving-read"): an API server
// may answer with any state that it has.
func (r *registers) getAny(ctx context.Context, key string) record.Op {
	any := *r
	any.purpose = "moving-read"
	op := record.Op{Type: record.OpGet, Consistency: "any", Key: key}
	req := client.Request{Method: http.MethodGet, Path: r.path(key), Query: url.Values{"resourceVersion": {"0"}}}
	return any.do(ctx, op, req, func(op *record.Op, a client.Answer) { configMapKind.found(op, a) })
}
