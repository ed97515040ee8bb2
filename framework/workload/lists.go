package workload

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/holdfast-ha/holdfast/framework/record"
	"github.com/holdfast-ha/holdfast/framework/workload/client"
)

// lists is the profile of clients that list the registers: in each of the
// semantics of resourceVersion, whole and paged, all and one group.
type lists struct {
	t        *Traffic
	settings ListSettings
}

// matches are the resourceVersion semantics of the lists.
var matches = []record.ListMatch{record.MatchUnset, record.MatchAny, record.MatchNotOlderThan, record.MatchExact}

func (p lists) start() error {
	return p.t.perEntrance(ProfileLists, p.settings.ClientsPerEntrance, func(r *registers, random *rand.Rand, _ int) {
		// Each of them unpaged, and each paged.
		kinds := newDeck(random, 0, 1, 2, 3, 4, 5, 6, 7)
		p.t.loop(r.left, random, p.settings.Interval, func(ctx context.Context) { r.list(ctx, p.choose(kinds.deal(), r.of, random)) })
	})
}

// choose picks a list. The requested versions are recent ones that any client of the collection
// saw, through whichever entrance, so that an API server which lags behind is asked for versions
// that it may not have yet.
func (p lists) choose(kind int, c *collection, random *rand.Rand) listing {
	q := listing{match: matches[kind%len(matches)]}
	if random.IntN(4) == 0 {
		q.group = groups[random.IntN(len(groups))]
	}
	if kind >= len(matches) {
		q.limit = p.settings.Limit
		q.pause = time.Duration(random.Int64N(int64(50 * time.Millisecond)))
	}
	if q.match == record.MatchNotOlderThan || q.match == record.MatchExact {
		if q.asked = c.version(random); q.asked == "" {
			q.match = record.MatchUnset
		}
	}
	return q
}

// finish lists the final state of the collection, through each API server.
func (p lists) finish(ctx context.Context) {
	p.t.finally(ctx, func(ctx context.Context, r *registers) {
		tryUntil(ctx, func() bool { return r.list(ctx, listing{match: record.MatchUnset}).Outcome == record.OK })
	})
}

// listing is what a client wants to know of a collection.
type listing struct {
	group string // empty for all
	match record.ListMatch
	asked string // the requested version, for not-older-than and exact
	limit int    // of a page; 0 for one page
	// pause is how long the client takes before it requests the next page, so that a paged list
	// meets writes.
	pause time.Duration
}

// list lists the registers of the client's collection, once, and records it.
func (r *registers) list(ctx context.Context, q listing) record.List {
	l := record.List{
		Client: r.name, Entrance: r.entrance, API: apiKubernetes, Collection: r.of.name, Purpose: r.purpose,
		Group: q.group, Match: q.match, Asked: q.asked, Limit: q.limit,
	}
	query := r.selection("", q.group)
	switch q.match {
	case record.MatchAny:
		query.Set("resourceVersion", "0")
	case record.MatchNotOlderThan:
		query.Set("resourceVersion", q.asked)
		query.Set("resourceVersionMatch", "NotOlderThan")
	case record.MatchExact:
		query.Set("resourceVersion", q.asked)
		query.Set("resourceVersionMatch", "Exact")
	}
	if q.limit > 0 {
		query.Set("limit", strconv.Itoa(q.limit))
	}
	for {
		token := r.page(ctx, &l, query)
		if token == "" {
			break
		}
		// The continue token implies the version of the list.
		query.Del("resourceVersion")
		query.Del("resourceVersionMatch")
		query.Set("continue", token)
		client.Pause(ctx, q.pause)
	}
	l.Call, l.Return = l.Pages[0].Call, l.Pages[len(l.Pages)-1].Return
	_ = r.w.Append(record.KindList, l)
	if l.Outcome == record.OK {
		r.of.saw(l.Pages[0].Revision)
	}
	return l
}

// page adds one page to a list and returns the token that continues it.
func (r *registers) page(ctx context.Context, l *record.List, query url.Values) string {
	ctx, cancel := context.WithTimeout(ctx, r.timeout)
	defer cancel()
	p := record.Page{Call: r.w.Now(), Remaining: -1}
	a := r.api.Do(ctx, client.Request{Method: http.MethodGet, Path: r.path(""), Query: query})
	p.Return = r.w.Now()
	l.Outcome, l.Status, l.Error, l.RetryAfter = a.Outcome(), a.Status, a.Problem(), a.Refusal()
	var got corev1.ConfigMapList
	if l.Outcome == record.OK {
		if err := json.Unmarshal(a.Body, &got); err != nil || got.Kind != "ConfigMapList" || got.ResourceVersion == "" {
			l.Outcome, l.Error = record.Unknown, client.Shorten(fmt.Sprintf("status %d, but no list: %s", a.Status, a.Body))
			l.Other, got = l.Error, corev1.ConfigMapList{}
		}
	}
	p.Revision, p.Items, p.Continued = got.ResourceVersion, len(got.Items), got.Continue != ""
	if got.RemainingItemCount != nil {
		p.Remaining = int(*got.RemainingItemCount)
	}
	for _, cm := range got.Items {
		l.Items = append(l.Items, itemOf(cm))
	}
	l.Pages = append(l.Pages, p)
	return got.Continue
}

// selection returns the query for one key, for one group, or, where both are
// empty, for all of the collection.
func (r *registers) selection(key, group string) url.Values {
	if key != "" {
		return url.Values{"fieldSelector": {"metadata.name=" + key}}
	}
	labels := collectionLabel + "=" + r.of.name
	if group != "" {
		labels += "," + groupLabel + "=" + group
	}
	return url.Values{"labelSelector": {labels}}
}
