package apitest

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"
)

// resources are the kinds that can be listed.
var resources = map[string]string{
	"configmaps": "ConfigMap", "endpoints": "Endpoints", "endpointslices": "EndpointSlice", "leases": "Lease", "pods": "Pod", "events": "Event",
	"deployments": "Deployment", "services": "Service", "nodes": "Node",
}

func isCollection(p string) bool { return resources[path.Base(p)] != "" }

// merge is a JSON merge patch (RFC 7386).
func merge(o, patch map[string]any) {
	for k, v := range patch {
		sub, isMap := v.(map[string]any)
		old, wasMap := o[k].(map[string]any)
		switch {
		case v == nil:
			delete(o, k)
		case isMap && wasMap:
			merge(old, sub)
		default:
			o[k] = v
		}
	}
}

// selects reports whether a query's selectors match an object.
func selects(q url.Values, p string, o map[string]any) bool {
	if o == nil {
		return false
	}
	if name, ok := strings.CutPrefix(q.Get("fieldSelector"), "metadata.name="); ok && name != path.Base(p) {
		return false
	}
	labels, _ := meta(o)["labels"].(map[string]any)
	for part := range strings.SplitSeq(q.Get("labelSelector"), ",") {
		if key, value, ok := strings.Cut(part, "="); ok && labels[key] != value {
			return false
		}
	}
	return true
}

// state returns the objects of a collection at a revision.
func (c *Cluster) state(collection string, revision int) map[string]map[string]any {
	all := map[string]map[string]any{}
	for _, e := range c.history[:min(revision, c.revision)] { // revision n is that of the n-th event
		switch {
		case path.Dir(e.path) != collection:
		case e.kind == "DELETED":
			delete(all, e.path)
		default:
			all[e.path] = e.object
		}
	}
	return all
}

// list serves a list with the requested semantics; the stand-in has no cache, so it always
// returns the newest state. The lock is held.
func (c *Cluster) list(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	at, after := c.revision, ""
	if asked, _ := strconv.Atoi(q.Get("resourceVersion")); q.Get("resourceVersionMatch") == "Exact" {
		at = asked
	} else if asked > c.revision {
		Fail(w, http.StatusGatewayTimeout, "Timeout", "Too large resource version")
		return
	}
	if token, err := base64.URLEncoding.DecodeString(q.Get("continue")); err == nil && len(token) > 0 {
		version, rest, _ := strings.Cut(string(token), " ")
		at, _ = strconv.Atoi(version)
		after = rest
	}
	if at < c.gone {
		Fail(w, http.StatusGone, "Expired", "The resourceVersion for the provided list is too old.")
		return
	}
	state := c.state(r.URL.Path, at)
	limit, _ := strconv.Atoi(q.Get("limit"))
	items, list := []any{}, map[string]any{"resourceVersion": strconv.Itoa(at)}
	for _, p := range slices.Sorted(maps.Keys(state)) {
		if p <= after || !selects(q, p, state[p]) {
			continue
		}
		if limit > 0 && len(items) == limit {
			list["continue"] = base64.URLEncoding.EncodeToString(fmt.Appendf(nil, "%d %s", at, after))
			break
		}
		items, after = append(items, state[p]), p
	}
	answer(w, 200, map[string]any{"kind": resources[path.Base(r.URL.Path)] + "List", "metadata": list, "items": items})
}

// deleteAll deletes the objects that the selectors match. The lock is held.
func (c *Cluster) deleteAll(w http.ResponseWriter, r *http.Request) {
	for p, o := range c.state(r.URL.Path, c.revision) {
		if selects(r.URL.Query(), p, o) {
			delete(c.objects, p)
			c.note("DELETED", p, copied(o))
		}
	}
	answer(w, 200, map[string]any{"kind": "Status", "status": "Success"})
}

// bookmarkEvery is how often a watch with bookmarks receives one.
const bookmarkEvery = 100 * time.Millisecond

func (c *Cluster) watch(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	seconds, err := strconv.Atoi(q.Get("timeoutSeconds"))
	if err != nil {
		seconds = 60
	}
	end := time.After(time.Duration(seconds) * time.Second)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(200)
	out := json.NewEncoder(w)
	send := func(kind string, o map[string]any) { _ = out.Encode(map[string]any{"type": kind, "object": o}) }
	bookmark := func(revision int, annotations map[string]any) {
		send("BOOKMARK", map[string]any{"metadata": map[string]any{"resourceVersion": strconv.Itoa(revision), "annotations": annotations}})
	}

	from, err := strconv.Atoi(q.Get("resourceVersion"))
	fresh := err != nil || q.Get("sendInitialEvents") == "true"
	c.mu.Lock()
	if fresh {
		from = c.revision
	}
	known := c.state(r.URL.Path, from)
	c.mu.Unlock()
	if fresh {
		for _, p := range slices.Sorted(maps.Keys(known)) {
			if selects(q, p, known[p]) {
				send("ADDED", known[p])
			}
		}
	}
	if q.Get("sendInitialEvents") == "true" {
		bookmark(from, map[string]any{"k8s.io/initial-events-end": "true"})
	}
	for {
		c.mu.Lock()
		gone, changed, now := from < c.gone, c.changed, c.revision
		events := c.history[min(from, now):] // is only appended to
		c.mu.Unlock()
		if gone {
			send("ERROR", map[string]any{"kind": "Status", "apiVersion": "v1", "metadata": map[string]any{},
				"status": "Failure", "reason": "Expired", "code": 410, "message": "too old resource version"})
			return
		}
		for _, e := range events {
			if path.Dir(e.path) != r.URL.Path {
				continue
			}
			kind, object := change(q, known[e.path], e)
			if kind != "" {
				send(kind, object)
			}
			known[e.path] = e.object
			if e.kind == "DELETED" {
				delete(known, e.path)
			}
		}
		from = max(from, now)
		w.(http.Flusher).Flush()
		select {
		case <-changed:
		case <-time.After(bookmarkEvery):
			if q.Get("allowWatchBookmarks") == "true" {
				bookmark(from, nil)
			}
		case <-r.Context().Done():
			return
		case <-end:
			return
		}
	}
}

// change returns how a watch with selectors shows an event: an object that starts to match is
// added, one that stops matching is deleted.
func change(q url.Values, old map[string]any, e event) (kind string, object map[string]any) {
	was, is := selects(q, e.path, old), e.kind != "DELETED" && selects(q, e.path, e.object)
	switch {
	case was && is:
		return "MODIFIED", e.object
	case is:
		return "ADDED", e.object
	case was:
		last := copied(old)
		meta(last)["resourceVersion"] = strconv.Itoa(e.revision)
		return "DELETED", last
	}
	return "", nil
}
