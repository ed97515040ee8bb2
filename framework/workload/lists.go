package workload

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/holdfast-ha/holdfast/framework/record"
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
