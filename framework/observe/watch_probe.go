package observe

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"

	"github.com/holdfast-ha/holdfast/framework/record"
	"github.com/holdfast-ha/holdfast/framework/workload/client"
)

// watchedObject is the object that watch probes write and watch.
const watchedObject = "watched"

// watchPace is the number of ProbeIntervals between two writes of it.
const watchPace = 5

// eventsKept is how many events a watch remembers that have no matching write yet.
const eventsKept = 64

// watchProbe keeps a watch open through one entrance, and times the events.
type watchProbe struct {
	o        *Observers
	api      *client.API
	entrance string

	mu       sync.Mutex
	revision uint64 // of the newest event, from which a broken watch is resumed
	arrived  []arrival
	waiting  []expected
	problem  string             // why the watch is not open; empty if it is
	breakOff context.CancelFunc // of the current watch; never nil
	left     bool               // the watch is not kept open any more
}

type arrival struct {
	revision uint64
	at       record.Nanos
}

// expected is an acknowledged write whose event has not arrived.
type expected struct {
	revision     uint64
	start, until record.Nanos
}

// watchProbes keeps a watch through each entrance and writes what they watch, through any
// entrance that accepts it: only the watch is measured.
func (o *Observers) watchProbes(context.Context) ([]func(context.Context), error) {
	var probes []*watchProbe
	var loops []func(context.Context)
	for _, e := range o.entrances() {
		api, err := o.api(e, client.Options{})
		if err != nil {
			return nil, err
		}
		p := &watchProbe{o: o, api: api, entrance: e.Name, problem: "the watch is not open yet", breakOff: func() {}}
		probes = append(probes, p)
		loops = append(loops, o.while(e.Node, p.run))
	}
	if len(probes) > 0 {
		loops = append(loops, func(ctx context.Context) { o.writeWatched(ctx, probes) })
	}
	return loops, nil
}

// writeWatched writes the watched object repeatedly. After a write that was not acknowledged
// it uses the next entrance, and no watch expects the event of that write.
func (o *Observers) writeWatched(ctx context.Context, probes []*watchProbe) {
	through := 0
	n := 0
	every(ctx, watchPace*o.cfg.ProbeInterval, func() {
		n++
		start := o.w.Now()
		revision, err := probes[through].write(ctx, "w"+strconv.Itoa(n))
		if err != nil {
			through = (through + 1) % len(probes)
		}
		for _, p := range probes {
			if err == nil {
				p.expect(revision, start)
			}
			p.giveUp()
		}
	})
}

func (p *watchProbe) write(ctx context.Context, value string) (uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, p.o.cfg.ReadTimeout)
	defer cancel()
	a := p.api.Do(ctx, heartbeat(watchedObject, value))
	if problem := problemOf(a, watchedObject); problem != "" {
		return 0, errors.New(problem)
	}
	var o object
	if err := json.Unmarshal(a.Body, &o); err != nil {
		return 0, err
	}
	return strconv.ParseUint(o.Metadata.ResourceVersion, 10, 64)
}

// expect records an acknowledged write, whose event may have arrived already.
func (p *watchProbe) expect(revision uint64, start record.Nanos) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, a := range p.arrived {
		if a.revision >= revision {
			p.arrived = p.arrived[i+1:]
			p.report(expected{revision: revision, start: start}, a.at)
			return
		}
	}
	p.waiting = append(p.waiting, expected{revision, start, p.o.w.Now() + record.Nanos(p.o.cfg.ReadTimeout)})
}

// event records an event. An event of a later write also counts for the earlier ones: a watch
// that had to start again shows nothing else.
func (p *watchProbe) event(revision uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.o.w.Now()
	p.expire(now)
	p.revision = max(p.revision, revision)
	still := p.waiting[:0]
	found := false
	for _, e := range p.waiting {
		if e.revision > revision {
			still = append(still, e)
			continue
		}
		found = found || e.revision == revision
		p.report(e, now)
	}
	p.waiting = still
	if !found {
		p.arrived = append(p.arrived, arrival{revision, now})
		p.arrived = p.arrived[max(0, len(p.arrived)-eventsKept):]
	}
}

func (p *watchProbe) giveUp() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.expire(p.o.w.Now())
}

// expire records the events that have not arrived in time as failures, and closes the watch that
// did not deliver them. The lock is held.
func (p *watchProbe) expire(now record.Nanos) {
	for len(p.waiting) > 0 && p.waiting[0].until <= now {
		e := p.waiting[0]
		p.waiting = p.waiting[1:]
		problem := p.problem
		if problem == "" {
			problem = fmt.Sprintf("no event of version %d came within %s", e.revision, p.o.cfg.ReadTimeout)
			p.breakOff()
		}
		p.append(record.Probe{Start: e.start, End: e.until, Error: problem})
	}
}

func (p *watchProbe) report(e expected, at record.Nanos) {
	p.append(record.Probe{Start: e.start, End: max(at, e.start), OK: true, Status: http.StatusOK})
}

func (p *watchProbe) append(pr record.Probe) {
	if p.left {
		return
	}
	pr.Entrance, pr.Reused, pr.Kind = p.entrance, true, record.ProbeWatch
	_ = p.o.w.Append(record.KindProbe, pr)
}

// run keeps the watch open until ctx ends.
func (p *watchProbe) run(ctx context.Context) {
	for ctx.Err() == nil {
		one, cancel := context.WithCancel(ctx)
		p.mu.Lock()
		p.breakOff = cancel
		from := p.revision
		p.mu.Unlock()
		err := p.follow(one, from)
		cancel()
		p.mu.Lock()
		if p.problem = "the watch ended"; err != nil && !errors.Is(err, io.EOF) {
			p.problem = client.Shorten(err.Error())
		}
		if errors.Is(err, errGone) {
			p.revision = 0 // start with the current state
		}
		p.mu.Unlock()
		client.Pause(ctx, p.o.cfg.ProbeInterval)
	}
	p.mu.Lock()
	p.left = true
	p.mu.Unlock()
}

// follow makes one watch, from a version on or, for 0, from the current state.
func (p *watchProbe) follow(ctx context.Context, from uint64) error {
	events, err := openWatch(ctx, p.api, watchedObject, from, p.o.cfg.ReadTimeout)
	if err != nil {
		return err
	}
	defer events.Close()
	p.mu.Lock()
	p.problem = ""
	p.mu.Unlock()
	for {
		revision, err := events.next()
		if err != nil {
			return err
		}
		p.event(revision)
	}
}

// firstEvent opens a watch and waits for the object's state.
func (p *prober) firstEvent(ctx context.Context) (status int, problem string) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	events, err := openWatch(ctx, p.api, p.object, 0, p.timeout)
	if refused, ok := errors.AsType[*client.RefusedError](err); ok {
		return refused.Status, client.Shorten(err.Error())
	}
	if err != nil {
		return 0, client.Shorten(err.Error())
	}
	defer events.Close()
	if _, err = events.next(); err != nil {
		return http.StatusOK, client.Shorten("no event came on the watch: " + err.Error())
	}
	return http.StatusOK, ""
}

type objectEvents struct {
	name string
	io.Closer
	*json.Decoder
}

// openWatch watches an object of the probes. It gives up if the watch is not accepted within
// limit.
func openWatch(ctx context.Context, api *client.API, name string, from uint64, limit time.Duration) (objectEvents, error) {
	query := url.Values{"watch": {"true"}, "fieldSelector": {"metadata.name=" + name}, "timeoutSeconds": {strconv.Itoa(watchSeconds)}}
	if from > 0 {
		query.Set("resourceVersion", strconv.FormatUint(from, 10))
	}
	body, err := api.Stream(ctx, client.Request{Method: http.MethodGet, Path: configMaps, Query: query}, limit)
	if err != nil {
		return objectEvents{}, watchError(err)
	}
	return objectEvents{name, body, json.NewDecoder(body)}, nil
}

// next returns the version of the object's next state.
func (e objectEvents) next() (uint64, error) {
	for {
		var event struct {
			Type   string
			Object struct {
				Code     int
				Message  string
				Metadata struct{ Name, ResourceVersion string }
			}
		}
		if err := e.Decode(&event); err != nil {
			return 0, err
		}
		switch o := event.Object; {
		case event.Type == "ERROR" && o.Code == http.StatusGone:
			return 0, errGone
		case event.Type == "ERROR":
			return 0, fmt.Errorf("the watch ended with status %d: %s", o.Code, o.Message)
		case o.Metadata.Name == e.name:
			return strconv.ParseUint(o.Metadata.ResourceVersion, 10, 64)
		}
	}
}
