package workload

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/record"
	"github.com/holdfast-ha/holdfast/framework/workload/client"
)

const (
	// stepTimeout is how long a client of a step waits for a response.
	stepTimeout = 5 * time.Second
	// stepTries is how often a step retries an unacknowledged write.
	stepTries = 5
)

// CrossRead writes a unique value through each API server and reads it immediately through each
// other one, one write for each ordered pair (purpose "cross-read"). A write that is not
// acknowledged is retried with another key, 5 times. The error says that the step failed, not
// that a value was missed.
func CrossRead(ctx context.Context, c framework.Cluster, w *record.Writer) error {
	servers := apiServers(c.Entrances())
	if len(servers) < 2 {
		return fmt.Errorf("cross-read: two API servers are required, the cluster has %d", len(servers))
	}
	setup, cancel := context.WithTimeout(ctx, setupLimit)
	defer cancel()
	if err := EnsureNamespace(setup, servers, DefaultNamespace); err != nil {
		return fmt.Errorf("cross-read: %w", err)
	}
	clients := make([]*registers, len(servers))
	for i, e := range servers {
		r, err := newRegisters(e, w, "cross-read/"+e.Name, DefaultNamespace, "cross-read", stepTimeout)
		if err != nil {
			return fmt.Errorf("cross-read: %w", err)
		}
		defer r.close()
		clients[i] = r
	}
	suffix, n := fresh(), 0
	for _, a := range clients {
		last := record.Op{Outcome: record.Unknown} // the register as a left it
		for _, b := range clients {
			if a == b {
				continue
			}
			for range stepTries {
				n++
				value := fmt.Sprintf("%s-to-%s-%d", a.entrance, b.entrance, n)
				if last.Outcome == record.OK {
					last = a.update(ctx, last.Key, content{value: value}, last.Revision)
				} else {
					last = a.create(ctx, fmt.Sprintf("cross-%d-%s", n, suffix), content{value: value})
				}
				if last.Outcome == record.OK || !client.Pause(ctx, 250*time.Millisecond) {
					break
				}
			}
			if last.Outcome != record.OK {
				return fmt.Errorf("cross-read: no write through %s was acknowledged: %s", a.entrance, last.Error)
			}
			b.get(ctx, last.Key)
		}
	}
	return w.Err()
}

// asked makes the request of an operation on the Kubernetes API, and returns the operation as it is
// to be recorded.
func asked(ctx context.Context, api *client.API, w *record.Writer, op record.Op, r client.Request) (record.Op, client.Answer) {
	ctx, cancel := context.WithTimeout(ctx, stepTimeout)
	defer cancel()
	op.API, op.Call = "kubernetes", w.Now()
	a := api.Do(ctx, r)
	op.Return, op.Outcome, op.Error = w.Now(), a.Outcome(), a.Problem()
	return op, a
}

// Ready queries /readyz at every entrance, each on its own connection (purpose "ready"). The
// value is the response body.
func Ready(ctx context.Context, c framework.Cluster, w *record.Writer) error {
	err := framework.Each(c.Entrances(), func(e framework.Entrance) error {
		api, err := client.NewAPI(e.Config, client.Options{NewConnections: true})
		if err != nil {
			return fmt.Errorf("readiness of %s: %w", e.Name, err)
		}
		defer api.Close()
		op, a := asked(ctx, api, w, record.Op{Client: "ready", Entrance: e.Name, Type: record.OpGet, Key: "/readyz", Purpose: "ready"},
			client.Request{Method: http.MethodGet, Path: "/readyz"})
		if op.Outcome == record.OK {
			op.Found, op.Value = true, client.Shorten(strings.TrimSpace(string(a.Body)))
		}
		_ = w.Append(record.KindOp, op)
		return nil
	})
	return cmp.Or(err, w.Err())
}

const (
	// minorityTime is how long MinorityProbe continues.
	minorityTime = 5 * time.Second
	// minorityClients is how many clients of the node read, and how many write, so that each
	// tries 10 times even if every request times out.
	minorityClients = 5
)

// MinorityProbe reads and writes a register through the API server of node (purposes
// "minority-read" and "minority-write", with a timeout of 2 s), while the other API servers write
// and read the same register (purposes "majority-write" and "majority-read"), so that a stale
// read on the node shows. It takes about 5 s, even if no majority answers. The register is in
// DefaultNamespace.
func MinorityProbe(ctx context.Context, c framework.Cluster, node string, w *record.Writer) error {
	return minorityProbe(ctx, c, node, w, minorityTime)
}

func minorityProbe(ctx context.Context, c framework.Cluster, node string, w *record.Writer, length time.Duration) error {
	suffix := fresh()
	key := "minority-" + suffix
	var minority *registers
	var majority []*registers
	var rest []framework.Entrance
	for _, e := range apiServers(c.Entrances()) {
		name, timeout := "majority/"+e.Name, 2*time.Second
		if e.Node == node {
			name = "minority/" + e.Name
		} else {
			rest = append(rest, e)
		}
		r, err := newRegisters(e, w, name, DefaultNamespace, "", timeout)
		if err != nil {
			return fmt.Errorf("minority probe: %w", err)
		}
		defer r.close()
		if e.Node == node {
			minority = r
		} else {
			majority = append(majority, r)
		}
	}
	if minority == nil {
		return fmt.Errorf("minority probe: no API server on node %q", node)
	}
	ctx, cancel := context.WithTimeout(ctx, length+2*minority.timeout)
	defer cancel()
	if len(rest) > 0 {
		// Without a majority this must not delay the probe: then the namespace is that of the
		// traffic, or nothing is acknowledged anyway.
		setup, done := context.WithTimeout(ctx, 2*time.Second)
		_ = EnsureNamespace(setup, rest, DefaultNamespace)
		done()
	}
	until := time.Now().Add(length)
	var version atomic.Value // the newest known resourceVersion of the register
	var all sync.WaitGroup
	for _, r := range majority {
		all.Go(func() { majorityWrites(ctx, r, key, &version, until) })
	}
	for i := range minorityClients {
		r := *minority
		r.name = fmt.Sprintf("%s/%d", r.name, i)
		all.Go(func() { minorityTries(ctx, &r, key, fmt.Sprintf("%d-%s", i, suffix), &version, until) })
	}
	all.Wait()
	return w.Err()
}

func majorityWrites(ctx context.Context, r *registers, key string, version *atomic.Value, until time.Time) {
	read, write := *r, *r
	read.purpose, write.purpose = "majority-read", "majority-write"
	for n := 0; time.Now().Before(until) && ctx.Err() == nil; n++ {
		value := content{value: fmt.Sprintf("%s-%d", r.entrance, n)}
		op := read.get(ctx, key)
		if op.Outcome == record.OK {
			if op.Found {
				op = write.update(ctx, key, value, op.Revision)
			} else {
				op = write.create(ctx, key, value)
			}
			if op.Outcome == record.OK {
				version.Store(op.Revision)
			}
		}
		client.Pause(ctx, 100*time.Millisecond)
	}
}

// minorityTries runs the reads and the writes of a client of the minority in parallel, since each
// is expected to time out. Some writes are to the register that the majority writes, others
// create registers with the suffix.
func minorityTries(ctx context.Context, r *registers, key, suffix string, version *atomic.Value, until time.Time) {
	read, write := *r, *r
	read.purpose, write.purpose = "minority-read", "minority-write"
	var all sync.WaitGroup
	all.Go(func() {
		for time.Now().Before(until) && ctx.Err() == nil {
			read.get(ctx, key)
			client.Pause(ctx, 100*time.Millisecond)
		}
	})
	all.Go(func() {
		for n := 0; time.Now().Before(until) && ctx.Err() == nil; n++ {
			value := content{value: fmt.Sprintf("%s-%d", r.name, n)}
			if expect, _ := version.Load().(string); expect != "" && n%2 == 0 {
				write.update(ctx, key, value, expect)
			} else {
				// On a register of its own, so that no version conflicts.
				write.create(ctx, fmt.Sprintf("minority-%d-%s", n, suffix), value)
			}
			client.Pause(ctx, 100*time.Millisecond)
		}
	})
	all.Wait()
}
