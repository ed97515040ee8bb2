package observe

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/record"
	"github.com/holdfast-ha/holdfast/framework/workload/client"
)

const (
	// watchRetry is the pause before a broken watch is resumed.
	watchRetry = 250 * time.Millisecond
	// watchSeconds is the watch timeout requested from the server, so that a watch that hangs
	// unnoticed does not hang forever.
	watchSeconds = 60
	// watchStart is how long a watch may take to be accepted.
	watchStart = 5 * time.Second
)

// source is one of the two sources of the addresses of default/kubernetes.
type source struct {
	name, path string
	query      url.Values
	addresses  func(object) []string
}

func sources() []source {
	return []source{
		{
			"endpoints", "/api/v1/namespaces/default/endpoints",
			url.Values{"fieldSelector": {"metadata.name=kubernetes"}}, object.subsetAddresses,
		},
		{
			"endpointslice", "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices",
			url.Values{"labelSelector": {"kubernetes.io/service-name=kubernetes"}}, object.sliceAddresses,
		},
	}
}

// object is the needed part of a v1 Endpoints or discovery.k8s.io/v1
// EndpointSlice.
type object struct {
	Metadata struct{ Name, ResourceVersion string }
	Subsets  []struct {
		Addresses []struct{ IP string }
	}
	Endpoints []struct {
		Addresses  []string
		Conditions struct{ Ready *bool }
	}
}

func (o object) subsetAddresses() (all []string) {
	for _, s := range o.Subsets {
		for _, a := range s.Addresses {
			all = append(all, a.IP)
		}
	}
	return all
}

// sliceAddresses counts an endpoint without a condition as ready, as the API's
// documentation asks consumers to.
func (o object) sliceAddresses() (all []string) {
	for _, e := range o.Endpoints {
		if e.Conditions.Ready == nil || *e.Conditions.Ready {
			all = append(all, e.Addresses...)
		}
	}
	return all
}

type objectList struct {
	Kind     string
	Metadata struct{ ResourceVersion string }
	Items    []object
}

// chain is what is seen of one source through one entrance. Samples and watches sometimes
// overtake each other. A sample that was overtaken is dropped. Every change that a watch reports
// is recorded, even if a sample already showed the resulting state: only the watch shows short
// changes.
type chain struct {
	o   *Observers
	api *client.API
	src source
	via string

	mu       sync.Mutex
	revision uint64       // the newest recorded
	watched  uint64       // the newest that the watch reported
	at       record.Nanos // when the last state was recorded
}

// endpoints watches both sources through each API server and samples them,
// with quorum lists, through each entrance.
func (o *Observers) endpoints(context.Context) ([]func(context.Context), error) {
	var loops []func(context.Context)
	for _, e := range o.entrances() {
		api, err := o.api(e, client.Options{})
		if err != nil {
			return nil, err
		}
		for _, src := range sources() {
			c := &chain{o: o, api: api, src: src, via: e.Name}
			loops = append(loops, o.while(e.Node, func(ctx context.Context) {
				every(ctx, o.cfg.EndpointInterval, func() { _, _ = c.list(ctx) })
			}))
			if e.Kind == framework.EntranceAPIServer {
				loops = append(loops, o.while(e.Node, c.watch))
			}
		}
	}
	return loops, nil
}

// list reads the source and records it as a sample.
func (c *chain) list(ctx context.Context) (objectList, error) {
	ctx, cancel := context.WithTimeout(ctx, c.o.cfg.ReadTimeout)
	defer cancel()
	call := c.o.w.Now()
	a := c.api.Do(ctx, client.Request{Method: http.MethodGet, Path: c.src.path, Query: c.src.query})
	if a.Outcome() != record.OK {
		return objectList{}, errors.New(a.Problem())
	}
	var l objectList
	if err := json.Unmarshal(a.Body, &l); err != nil {
		return objectList{}, fmt.Errorf("failed to read the list of %s: %w", c.src.name, err)
	}
	if l.Kind == "" || l.Metadata.ResourceVersion == "" {
		return objectList{}, fmt.Errorf("list of %s: not a list", c.src.name)
	}
	c.add(call, l.Metadata.ResourceVersion, true, l.Items)
	return l, nil
}

// add records a change, or a sample unless a newer state is already recorded. A sample requested
// after that is recorded whatever its revision: it is what a client is served now.
func (c *chain) add(call record.Nanos, revision string, sample bool, objects []object) {
	addresses := []string{}
	for _, o := range objects {
		addresses = append(addresses, c.src.addresses(o)...)
	}
	slices.Sort(addresses)
	n, _ := strconv.ParseUint(revision, 10, 64)
	c.mu.Lock()
	defer c.mu.Unlock()
	if sample && n < c.revision && call <= c.at || !sample && (n <= c.watched || n == c.revision) {
		return
	}
	_ = c.o.w.Append(record.KindEndpoints, record.Endpoints{
		Source: c.src.name, Via: c.via, Addresses: slices.Compact(addresses), Revision: revision, Sample: sample,
	})
	if !sample || n < c.watched { // the server may serve the past again, and continue from there
		c.watched = n
	}
	if sample || n > c.revision {
		c.revision, c.at = n, c.o.w.Now()
	}
}

// errGone reports that the history that a watch requested no longer exists.
var errGone = errors.New("410 Gone")

// watch records every change until ctx ends. A broken watch is resumed where it stopped; if its
// history is gone, it starts again with a list.
func (c *chain) watch(ctx context.Context) {
	revision, known := "", map[string]object{}
	for ctx.Err() == nil {
		if revision == "" {
			l, err := c.list(ctx)
			if err != nil {
				client.Pause(ctx, watchRetry)
				continue
			}
			revision = l.Metadata.ResourceVersion
			clear(known)
			for _, o := range l.Items {
				known[o.Metadata.Name] = o
			}
		}
		err := c.follow(ctx, &revision, known)
		if errors.Is(err, errGone) {
			revision = ""
		}
		client.Pause(ctx, watchRetry)
	}
}

// follow makes one watch from a revision on, and keeps the revision and the
// objects up to date, until it breaks.
func (c *chain) follow(ctx context.Context, revision *string, known map[string]object) error {
	query := url.Values{
		"watch": {"true"}, "allowWatchBookmarks": {"true"},
		"resourceVersion": {*revision}, "timeoutSeconds": {strconv.Itoa(watchSeconds)},
	}
	maps.Copy(query, c.src.query)
	body, err := c.api.Stream(ctx, client.Request{Method: http.MethodGet, Path: c.src.path, Query: query}, watchStart)
	if err != nil {
		return watchError(err)
	}
	defer body.Close()
	events := json.NewDecoder(body)
	for {
		var event struct {
			Type   string
			Object json.RawMessage
		}
		if err := events.Decode(&event); err != nil {
			return err
		}
		if event.Type == "ERROR" {
			var status struct{ Code int }
			if json.Unmarshal(event.Object, &status) == nil && status.Code == http.StatusGone {
				return errGone
			}
			return fmt.Errorf("watch of %s through %s: %s", c.src.name, c.via, client.Shorten(string(event.Object)))
		}
		var o object
		if err := json.Unmarshal(event.Object, &o); err != nil || o.Metadata.ResourceVersion == "" {
			return fmt.Errorf("watch of %s through %s: not an object: %s", c.src.name, c.via, client.Shorten(string(event.Object)))
		}
		*revision = o.Metadata.ResourceVersion
		switch event.Type {
		case "ADDED", "MODIFIED":
			known[o.Metadata.Name] = o
		case "DELETED":
			delete(known, o.Metadata.Name)
		default: // BOOKMARK
			continue
		}
		objects := make([]object, 0, len(known))
		for _, o := range known {
			objects = append(objects, o)
		}
		c.add(0, *revision, false, objects)
	}
}

func watchError(err error) error {
	if refused, ok := errors.AsType[*client.RefusedError](err); ok && refused.Status == http.StatusGone {
		return errGone
	}
	if errors.Is(err, client.ErrNotAccepted) {
		return fmt.Errorf("the watch was %w", err)
	}
	return err
}
