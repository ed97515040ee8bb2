package observe

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/record"
	"github.com/holdfast-ha/holdfast/framework/workload"
	"github.com/holdfast-ha/holdfast/framework/workload/client"
)

// probeNamespace holds one ConfigMap for each prober.
const probeNamespace = "holdfast-probes"

// maxOutstanding limits the probes of one prober that wait for an answer.
const maxOutstanding = 100

// prober makes one kind of probe through one entrance, at fixed times whatever
// became of the probes before (an open loop): a client that waited for its
// answers would ask less while the cluster is slow.
type prober struct {
	o        *Observers
	api      *client.API
	entrance string
	reused   bool
	write    bool
	object   string
	interval time.Duration
	timeout  time.Duration
}

// availability probes each entrance on new and on kept connections. A read is a
// quorum GET of a small ConfigMap, a write a merge patch of it. A probe on a kept
// connection makes a new one where none is free, as any client would.
func (o *Observers) availability(ctx context.Context) ([]func(context.Context), error) {
	c := o.cfg
	var probers []*prober
	for _, e := range c.Cluster.Entrances() {
		for _, reused := range []bool{true, false} {
			api, err := o.api(e, client.Options{NewConnections: !reused})
			if err != nil {
				return nil, err
			}
			object := "kept-" + e.Name
			read, write := c.ProbeInterval, 2*c.ProbeInterval
			if !reused {
				object = "new-" + e.Name
				read, write = c.ProbeInterval*5/2, 5*c.ProbeInterval
			}
			probers = append(probers,
				&prober{o, api, e.Name, reused, false, object, read, c.ReadTimeout},
				&prober{o, api, e.Name, reused, true, object, write, c.WriteTimeout})
		}
	}
	setup, cancel := context.WithTimeout(ctx, setupLimit)
	defer cancel()
	if err := prepareProbes(setup, c.Cluster.Entrances(), probers); err != nil {
		return nil, err
	}
	var loops []func(context.Context)
	for i, p := range probers {
		// Spread over an interval, so that probers do not all fire at once.
		offset := p.interval * time.Duration(i) / time.Duration(len(probers))
		loops = append(loops, func(ctx context.Context) {
			if client.Pause(ctx, offset) {
				p.run(ctx)
			}
		})
	}
	return loops, nil
}

// prepareProbes creates what the probes read and write, through any entrance.
func prepareProbes(ctx context.Context, entrances []framework.Entrance, probers []*prober) error {
	if err := workload.EnsureNamespace(ctx, entrances, probeNamespace); err != nil {
		return err
	}
	made := map[string]bool{}
	for i := 0; i < len(probers); {
		object := probers[i].object
		if made[object] {
			i++
			continue
		}
		var last error
		for _, p := range probers {
			if last = p.prepare(ctx, object); last == nil {
				made[object] = true
				break
			}
		}
		if last != nil && !client.Pause(ctx, 250*time.Millisecond) {
			return fmt.Errorf("create ConfigMap %s/%s for probes: %w; see whether the cluster is up", probeNamespace, object, last)
		}
	}
	return nil
}

func (p *prober) prepare(ctx context.Context, object string) error {
	ctx, cancel := context.WithTimeout(ctx, p.timeout)
	defer cancel()
	body := fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":%q}}`, object)
	a := p.api.Do(ctx, client.Request{
		Method: http.MethodPost, Path: "/api/v1/namespaces/" + probeNamespace + "/configmaps", Body: []byte(body),
	})
	if a.Outcome() == record.OK || a.Reason() == "AlreadyExists" {
		return nil
	}
	return errors.New(p.entrance + ": " + a.Problem())
}

func (p *prober) run(ctx context.Context) {
	// No more can wait than fit into the time-out, unless the harness is late.
	free := make(chan struct{}, min(maxOutstanding, int(p.timeout/p.interval)+5))
	var waiting sync.WaitGroup
	defer waiting.Wait()
	t := time.NewTicker(p.interval)
	defer t.Stop()
	for n := 0; ; n++ {
		select {
		case free <- struct{}{}:
			waiting.Go(func() {
				defer func() { <-free }()
				p.probe(ctx, n)
			})
		default:
			p.o.skipped.Add(1)
		}
		select {
		case <-t.C:
		case <-ctx.Done():
			return
		}
	}
}

func (p *prober) probe(parent context.Context, n int) {
	ctx, cancel := context.WithTimeout(parent, p.timeout)
	defer cancel()
	req := client.Request{Method: http.MethodGet, Path: "/api/v1/namespaces/" + probeNamespace + "/configmaps/" + p.object}
	if p.write {
		req.Method, req.Type = http.MethodPatch, client.MergePatch
		req.Body = []byte(`{"data":{"beat":"` + strconv.FormatInt(int64(p.o.w.Now()), 36) + "-" + strconv.Itoa(n) + `"}}`)
	}
	pr := record.Probe{Entrance: p.entrance, Reused: p.reused, Write: p.write, Start: p.o.w.Now()}
	a := p.api.Do(ctx, req)
	pr.End, pr.Status, pr.Error = p.o.w.Now(), a.Status, a.Problem()
	pr.OK = a.Outcome() == record.OK
	if !pr.OK && parent.Err() != nil {
		return // given up by Stop: it says nothing about the cluster
	}
	_ = p.o.w.Append(record.KindProbe, pr)
}
