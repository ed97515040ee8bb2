package engine

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/record"
	"github.com/holdfast-ha/holdfast/framework/workload/client"
)

// settleEach is the pause between two checks of a part that is not yet steady.
const settleEach = 500 * time.Millisecond

// part is a part of the steady state apart from etcd's members and the API servers. It has a
// longer limit, so the timeline does not wait for it; see settle.
type part struct {
	name  string
	limit time.Duration
	// missing says what is missing.
	missing func(context.Context) error
}

// settling follows the parts from the last healing on.
type settling struct {
	cancel context.CancelFunc
	all    sync.WaitGroup
}

// settle follows every part in the background, from the given time, until it is steady or its
// limit is over, and records the result, unless it already does so or something is still broken.
func (r *run) settle(ctx context.Context, from time.Time, limit time.Duration) {
	if r.settling != nil || len(r.unhealed()) > 0 || r.observers == nil {
		return
	}
	ctx, cancel := context.WithCancel(ctx)
	r.settling = &settling{cancel: cancel}
	for _, p := range r.parts(limit) {
		r.settling.all.Go(func() { r.follow(ctx, p, from) })
	}
}

// follow checks a part until it is steady. The last check starts when the limit is over, and may take as
// long as the margin.
func (r *run) follow(ctx context.Context, p part, from time.Time) {
	s := record.Steady{Phase: record.SteadyPart, Part: p.name, Limit: p.limit, First: r.w.Now()}
	for ctx.Err() == nil {
		s.Took = time.Since(from)
		last := s.Took
		if s.Took < p.limit {
			last = p.limit
		} else {
			last += r.cluster.Settings().Margin
		}
		look, done := context.WithDeadline(ctx, from.Add(last))
		err := p.missing(look)
		done()
		if s.OK = err == nil; !s.OK && ctx.Err() == nil && s.Took >= p.limit {
			s.Problems = []string{err.Error()}
		}
		if s.OK || len(s.Problems) > 0 {
			_ = r.w.Append(record.KindSteady, s) // the writer keeps its error
			return
		}
		client.Pause(ctx, min(settleEach, p.limit-time.Since(from)))
	}
}

// disturb ends what settle started: something is about to change, and a part that is not steady
// yet can no longer be attributed to the previous healing.
func (r *run) disturb(ctx context.Context) {
	r.unsettle()
	r.lookListed(ctx)
	r.lookConnected(ctx)
	r.served = r.served || len(r.unhealed()) == 0 && r.throughEach(r.serves)(ctx) == nil
}

func (r *run) unsettle() {
	if r.settling != nil {
		r.settling.cancel()
		r.settling.all.Wait()
		r.settling = nil
	}
}

// settled waits until settle has nothing left to follow.
func (r *run) settled() {
	if r.settling != nil {
		r.settling.all.Wait()
		r.unsettle()
	}
}

// lookListed checks whether the addresses of the API servers are listed correctly while nothing
// is broken: only if they ever were, can they be so again.
func (r *run) lookListed(ctx context.Context) {
	if !r.listed && len(r.unhealed()) == 0 {
		r.listed = r.condition(ctx, &Until{Condition: endpointsExact}) == nil
	}
}

// serves says why an API server does not acknowledge a write or does not open a watch, as when its
// watch cache is not filled again. /readyz shows neither.
func (r *run) serves(ctx context.Context, api *client.API) error {
	if err := r.write(ctx, api); err != nil {
		return err
	}
	body, err := api.Stream(ctx, client.Request{Method: http.MethodGet, Path: written, Query: url.Values{"watch": {"true"}}}, requestLimit)
	if err != nil {
		return fmt.Errorf("a watch was not opened: %w", err)
	}
	return body.Close()
}

// parts are those that were steady at some earlier time.
func (r *run) parts(limit time.Duration) (all []part) {
	s := r.cluster.Settings()
	since := record.Nanos(0) // of a renewal
	if !r.recovery.from.IsZero() {
		since = r.w.Since(r.recovery.from)
	}
	for _, c := range elected {
		if seen := r.observers.Renewal(string(c)); seen.Held {
			l, p := s.LeaseDuration, s.RetryPeriod
			if own, ok := s.Elections[c]; ok {
				l, p = own.LeaseDuration, own.RetryPeriod
			}
			election := l + p*44/10
			if seen.Coordinated {
				election = max(election, record.ElectionController) + record.CoordinatedElection
			}
			all = append(all, part{record.PartLease + string(c), limit + election + s.Margin,
				func(context.Context) error { return r.renewed(c, since, p) }})
		}
	}
	if r.served {
		// A list that fills a watch cache may wait behind a round of linearizable reads that
		// started during the fault.
		all = append(all, part{record.PartRequests, limit + etcdRequest + 2*s.ElectionTimeout + s.Margin, r.throughEach(r.serves)})
	}
	if !r.listed {
		return all
	}
	want := r.unhitAddresses()
	return append(all,
		part{record.PartListed, limit + s.EndpointInterval + s.Margin, r.throughEach(func(ctx context.Context, api *client.API) error {
			return checkListed(ctx, api, want, true)
		})},
		part{record.PartUnlisted, limit + s.EndpointTTL + s.EndpointInterval + s.Margin, r.throughEach(func(ctx context.Context, api *client.API) error {
			return checkNoOther(ctx, api, want)
		})})
}

// throughEach checks through every API server.
func (r *run) throughEach(look func(context.Context, *client.API) error) func(context.Context) error {
	return func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, requestLimit)
		defer cancel()
		return r.everywhere(ctx, look)
	}
}

// renewed says why no instance is known to renew a component's lease: a renewal by a holder on a
// node of the cluster must have been seen, since the given time and recently.
func (r *run) renewed(c framework.Component, since record.Nanos, retry time.Duration) error {
	seen, now := r.observers.Renewal(string(c)), r.w.Now()
	known := slices.ContainsFunc(r.cluster.Nodes(), func(n framework.Node) bool { return n.Name() == seen.Node })
	switch {
	case seen.Holder == "":
		return errors.New("no instance holds it")
	case !known:
		return fmt.Errorf("it is held by %s, which does not run on a node of the cluster", seen.Holder)
	case seen.At < since, time.Duration(now-seen.At) > 2*retry+r.cluster.Settings().Margin:
		return fmt.Errorf("%s holds it and does not renew it", seen.Holder)
	}
	return nil
}
