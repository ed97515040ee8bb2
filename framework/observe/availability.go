package observe

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/record"
	"github.com/holdfast-ha/holdfast/framework/workload"
	"github.com/holdfast-ha/holdfast/framework/workload/client"
)

// probeNamespace holds one ConfigMap for each prober.
const probeNamespace = workload.ProbeNamespace

// configMaps is their path.
const configMaps = "/api/v1/namespaces/" + probeNamespace + "/configmaps"

// maxOutstanding limits the probes of one prober that wait for a response.
const maxOutstanding = 100

// prober makes one kind of probe through one entrance, at fixed times regardless of earlier
// probes (an open loop): a client that waited for its responses would send fewer requests while
// the cluster is slow.
type prober struct {
	o        *Observers
	api      *client.API
	entrance string
	client   string // see record.Probe
	user     string // the same
	reused   bool
	kind     record.ProbeKind
	object   string
	interval time.Duration
	timeout  time.Duration
}

// paces are how often each kind of probe is made, in ProbeIntervals, on a kept and on a new
// connection, which costs a TLS handshake on both sides. Together they make 1.7 probes per
// interval through each entrance. watchProbes sets the rate for watches on a kept connection.
var paces = []struct {
	kind      record.ProbeKind
	kept, new float64
}{
	{record.ProbeQuorumRead, 1, 10},
	{record.ProbeRead, 5, 15},
	{record.ProbeWrite, 5, 15},
	{record.ProbeWatch, 0, 15},
}

// availability probes each entrance on new and on kept connections. A read is a GET of a small
// ConfigMap, a write a merge patch of it, a watch on a new connection one that ends with the
// first event. A probe for a kept connection opens a new one if none is free, as any client
// would.
func (o *Observers) availability(ctx context.Context) ([]func(context.Context), error) {
	c := o.cfg
	var probers []*prober
	for _, e := range o.entrances() {
		for _, reused := range []bool{true, false} {
			api, err := o.api(e, client.Options{NewConnections: !reused})
			if err != nil {
				return nil, err
			}
			for _, pace := range paces {
				every := pace.kept
				if !reused {
					every = pace.new
				}
				if every > 0 {
					p := o.prober(api, e, pace.kind, time.Duration(every*float64(c.ProbeInterval)))
					p.reused = reused
					if !reused {
						p.object = "new-" + e.Name
					}
					probers = append(probers, p)
				}
			}
		}
	}
	setup, cancel := o.setup(ctx)
	defer cancel()
	if err := prepareProbes(setup, o.entrances(), probers); err != nil && !c.Unprepared {
		return nil, err
	}
	loops, err := o.watchProbes(setup)
	if err != nil {
		return nil, err
	}
	for i, p := range probers {
		// Spread over an interval, so that probers do not all send at the same time.
		offset := p.interval * time.Duration(i) / time.Duration(len(probers))
		loops = append(loops, o.while(p.entrance, p.after(offset)))
	}
	return loops, nil
}

// prober returns a prober of the object for kept connections through an entrance.
func (o *Observers) prober(api *client.API, e framework.Entrance, kind record.ProbeKind, interval time.Duration) *prober {
	p := &prober{o: o, api: api, entrance: e.Name, kind: kind, object: keptObject(e), interval: interval, timeout: o.cfg.ReadTimeout}
	if kind == record.ProbeWrite {
		p.timeout = o.cfg.WriteTimeout
	}
	return p
}

// prepareProbes creates what the probes read and write, through any entrance.
func prepareProbes(ctx context.Context, entrances []framework.Entrance, probers []*prober) error {
	if err := workload.EnsureNamespace(ctx, entrances, probeNamespace); err != nil {
		return err
	}
	objects := []string{watchedObject}
	for _, p := range probers {
		if !slices.Contains(objects, p.object) {
			objects = append(objects, p.object)
		}
	}
	for _, object := range objects {
		err := client.Until(ctx, 250*time.Millisecond, func(ctx context.Context) error { return prepare(ctx, probers, object) })
		if err != nil {
			return fmt.Errorf("failed to create ConfigMap %s/%s for probes: %w; see whether the cluster is up", probeNamespace, object, err)
		}
	}
	return nil
}

// prepare creates an object through the first entrance that accepts it.
func prepare(ctx context.Context, probers []*prober, object string) (last error) {
	for _, p := range probers {
		if last = p.prepare(ctx, object); last == nil {
			return nil
		}
	}
	return last
}

func (p *prober) prepare(ctx context.Context, object string) error {
	ctx, cancel := context.WithTimeout(ctx, p.timeout)
	defer cancel()
	body := fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":%q}}`, object)
	a := p.api.Do(ctx, client.Request{Method: http.MethodPost, Path: configMaps, Body: []byte(body)})
	problem := problemOf(a, object)
	if problem == "" || a.Reason() == "AlreadyExists" {
		return nil
	}
	return errors.New(p.entrance + ": " + problem)
}

// problemOf returns what is wrong with a response that should be an object of the probes, empty
// for nothing. A proxy may answer with a page of its own and a status of success.
func problemOf(a client.Answer, name string) string {
	if a.Outcome() != record.OK {
		return a.Problem()
	}
	var o struct {
		Kind     string
		Metadata struct{ Name string }
	}
	if err := json.Unmarshal(a.Body, &o); err != nil || o.Kind != "ConfigMap" || o.Metadata.Name != name {
		return client.Shorten(fmt.Sprintf("status %d, but no ConfigMap %s: %s", a.Status, name, a.Body))
	}
	return ""
}

// after returns a loop that starts to probe after a time.
func (p *prober) after(offset time.Duration) func(context.Context) {
	return func(ctx context.Context) {
		if client.Pause(ctx, offset) {
			p.run(ctx)
		}
	}
}

func (p *prober) run(ctx context.Context) {
	// No more than fit into the timeout can wait, unless the harness is late.
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
			// Not sent, but not a gap in the record: the waiting ones are in it with their full
			// waiting time.
		}
		select {
		case <-t.C:
		case <-ctx.Done():
			return
		}
	}
}

func (p *prober) probe(parent context.Context, n int) {
	pr := record.Probe{Entrance: p.entrance, Reused: p.reused, Kind: p.kind, Client: p.client, User: p.user, Start: p.o.w.Now()}
	ctx, cancel := context.WithTimeout(parent, p.timeout)
	defer cancel()
	if p.kind == record.ProbeWatch {
		pr.Status, pr.Error = p.firstEvent(ctx)
		pr.OK = pr.Error == ""
	} else {
		a := p.api.Do(ctx, p.request(n))
		pr.Status, pr.Error, pr.RetryAfter = a.Status, problemOf(a, p.object), a.Refusal()
		pr.OK, pr.Unsent = pr.Error == "", !a.Sent
		pr.Server = p.o.nodeOf(a.Server)
		if p.client != "" {
			pr.Reused = a.Reused // an API server or a balancer may have closed the kept one
		}
		if wait, asked := a.Repeat(); asked {
			pr.End = p.o.w.Now()
			pr.Again = p.again(parent, n, wait)
		}
	}
	pr.End = cmp.Or(pr.End, p.o.w.Now())
	if !pr.OK && parent.Err() != nil {
		return // given up by Stop: it says nothing about the cluster
	}
	_ = p.o.w.Append(record.KindProbe, pr)
}

// again repeats a probe, as the API server requested; nil if there was no time for it.
func (p *prober) again(parent context.Context, n int, wait time.Duration) *record.Repetition {
	if !client.Pause(parent, wait) {
		return nil
	}
	ctx, cancel := context.WithTimeout(parent, p.timeout)
	defer cancel()
	r := record.Repetition{Start: p.o.w.Now()}
	a := p.api.Do(ctx, p.request(n))
	r.Status, r.Error, r.End = a.Status, problemOf(a, p.object), p.o.w.Now()
	r.OK = r.Error == ""
	if !r.OK && parent.Err() != nil {
		return nil
	}
	return &r
}

func (p *prober) request(n int) client.Request {
	switch p.kind {
	case record.ProbeWrite:
		return heartbeat(p.object, strconv.FormatInt(int64(p.o.w.Now()), 36)+"-"+strconv.Itoa(n))
	case record.ProbeRead:
		return client.Request{Method: http.MethodGet, Path: configMaps + "/" + p.object, Query: url.Values{"resourceVersion": {"0"}}}
	}
	return client.Request{Method: http.MethodGet, Path: configMaps + "/" + p.object}
}

// heartbeat is a write of a probe object, with a value that it never had. As in client-go, it is
// not retried if its connection closes while it is sent.
func heartbeat(object, value string) client.Request {
	return client.Request{Method: http.MethodPatch, Type: client.MergePatch, Path: configMaps + "/" + object,
		Body: []byte(`{"data":{"beat":"` + value + `"}}`)}
}
