package remote

import (
	"errors"
	"fmt"
	"maps"
	"math/bits"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-ha/holdfast/framework"
)

// broken records the nodes on which something is broken that their API server or etcd member
// needs, so that no more are broken than the cluster is designed to tolerate.
type broken struct {
	groups []group

	mu     sync.Mutex
	active map[string]breakage // by its cause
}

// group is a set of nodes of which at most bears may be broken at a time.
type group struct {
	nodes []string
	bears int
}

// groupsOf returns the groups of a cluster. The nodes with an etcd member need a majority, and so do
// those with an API server if members run beside them. API servers with an external etcd need none,
// but at most half of them may be broken, since the others take over their load.
func groupsOf(servers, members []string) []group {
	bears := (len(servers) - 1) / 2
	if !slices.ContainsFunc(members, func(n string) bool { return slices.Contains(servers, n) }) && len(members) > 0 {
		bears = len(servers) / 2
	}
	return []group{{servers, bears}, {members, (len(members) - 1) / 2}}
}

// breakage is one fault that is active.
type breakage struct {
	nodes []string
	until time.Time
}

// add records a fault under a key, unless too many nodes would then be broken at a time.
func (b *broken) add(cluster, key string, nodes []string, ttl time.Duration, anyNumber bool) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	maps.DeleteFunc(b.active, func(_ string, one breakage) bool { return time.Now().After(one.until) })
	now := slices.Clone(nodes)
	for _, one := range b.active {
		now = append(now, one.nodes...)
	}
	slices.Sort(now)
	now = slices.Compact(now)
	for _, group := range b.groups {
		hit := slices.DeleteFunc(slices.Clone(now), func(n string) bool { return !slices.Contains(group.nodes, n) })
		if len(nodes) > 0 && len(hit) > group.bears && !anyNumber {
			return refused(cluster, "break "+strings.Join(nodes, ", "),
				fmt.Errorf("%w to the level %q: %s would be broken at the same time, and a cluster of %d tolerates the loss of %d", ErrNoConsent, QuorumLoss, strings.Join(hit, ", "), len(group.nodes), group.bears))
		}
	}
	if b.active == nil {
		b.active = map[string]breakage{}
	}
	b.active[key] = breakage{nodes, time.Now().Add(ttl)}
	return nil
}

// mend records that a fault is healed.
func (b *broken) mend(key string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.active, key)
}

// mendUnless records that a fault is healed unless healing it failed with err, and returns err.
func (b *broken) mendUnless(key string, err error) error {
	if err == nil {
		b.mend(key)
	}
	return err
}

// mendAll records that all faults are healed whose keys have a prefix.
func (b *broken) mendAll(prefix string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	maps.DeleteFunc(b.active, func(key string, _ breakage) bool { return strings.HasPrefix(key, prefix) })
}

// untouched reports whether an error says that nothing was done. A request that failed in another
// way may have been carried out, so what it breaks counts until its time is over.
func untouched(err error) bool {
	return errors.Is(err, framework.ErrNothingDone) || errors.Is(err, errors.ErrUnsupported)
}

// rename moves a fault to another key.
func (b *broken) rename(from, to string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.active[to] = b.active[from]
	delete(b.active, from)
}

// A member whose links are worse than this may take no part in the quorum.
const (
	worstShare = 0.5                    // of packets that do not arrive
	worstDelay = 500 * time.Millisecond // half of etcd's default election timeout
	worstRate  = 1e6                    // bits per second
)

// severs reports whether an impairment separates the ends of its links as a cut does.
func severs(imp framework.Impairment) bool {
	return imp.Cut || imp.Reset || max(imp.Loss, imp.Corrupt) >= worstShare || imp.Delay+imp.Jitter >= worstDelay || imp.Rate > 0 && imp.Rate <= worstRate
}

// cutOff returns the smallest set of nodes that an impairment separates from the others: for each
// cut link between two nodes, one of them.
func cutOff(links []framework.Link, imp framework.Impairment, nodes []string) []string {
	if !severs(imp) {
		return nil
	}
	var pairs []uint
	for _, l := range links {
		from, to := slices.Index(nodes, l.From), slices.Index(nodes, l.To)
		if from >= 0 && to >= 0 {
			pairs = append(pairs, 1<<from|1<<to)
		}
	}
	best := uint(1)<<len(nodes) - 1
	for set := range uint(1) << len(nodes) {
		covers := !slices.ContainsFunc(pairs, func(pair uint) bool { return pair&set == 0 })
		if covers && bits.OnesCount(set) < bits.OnesCount(best) {
			best = set
		}
	}
	var off []string
	for i, n := range nodes {
		if best>>i&1 == 1 {
			off = append(off, n)
		}
	}
	return off
}
