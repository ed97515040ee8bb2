package judge

import (
	"cmp"
	"slices"
	"strconv"

	"github.com/holdfast-ha/holdfast/framework/record"
)

const (
	apiKubernetes = "kubernetes"
	apiEtcd       = "etcd"
)

func isWrite(t record.OpType) bool {
	switch t {
	case record.OpCreate, record.OpUpdate, record.OpPatch, record.OpDelete, record.OpPut:
		return true
	}
	return false
}

// isQuorumRead tells whether an operation promises the newest state.
func isQuorumRead(op record.Op) bool {
	return op.Type == record.OpGet &&
		(op.Consistency == "" || op.Consistency == "quorum" || op.Consistency == "linearizable")
}

// isRegister tells whether an operation acts on a register through the
// Kubernetes API, whatever it was made for.
func isRegister(op record.Op) bool {
	return op.API == apiKubernetes && op.Purpose != "ready"
}

// attempt is one write that a client or a prober tried.
type attempt struct {
	call, ret record.Nanos
	ok        bool
	what      string
}

// writesThrough returns every write that was tried through an entrance, of
// clients and probers, in the order of their calls.
func writesThrough(run *record.Run, entrance string) []attempt {
	var all []attempt
	for _, o := range run.Ops {
		if op := o.V; isRegister(op) && op.Entrance == entrance && isWrite(op.Type) {
			all = append(all, attempt{op.Call, op.Return, op.Outcome == record.OK, describe(op)})
		}
	}
	for _, p := range run.Probes {
		if pr := p.V; pr.Entrance == entrance && pr.Write {
			all = append(all, attempt{pr.Start, pr.End, pr.OK, "write probe through " + entrance + " " + at(pr.Start)})
		}
	}
	slices.SortStableFunc(all, func(a, b attempt) int { return cmp.Compare(a.call, b.call) })
	return all
}

// readsThrough returns every quorum read that was tried through an entrance
// with its call in [from, to).
func readsThrough(run *record.Run, entrance string, from, to record.Nanos) []record.Op {
	var reads []record.Op
	for _, o := range run.Ops {
		if op := o.V; isRegister(op) && op.Entrance == entrance && isQuorumRead(op) && op.Call >= from && op.Call < to {
			reads = append(reads, op)
		}
	}
	return reads
}

// ledger knows the writes of a record by API and key.
type ledger map[string][]record.Op

func ledgerKey(op record.Op) string { return op.API + "\x00" + op.Key }

func newLedger(run *record.Run) ledger {
	l := ledger{}
	for _, o := range run.Ops {
		if op := o.V; isWrite(op.Type) && op.Outcome != record.Refused && op.Purpose != "ready" {
			l[ledgerKey(op)] = append(l[ledgerKey(op)], op)
		}
	}
	return l
}

// staleAgainst returns an acknowledged write that the read should have seen
// and that is newer than what it returned: one that was acknowledged before
// the read was called. It returns the newest such write, or nil.
func (l ledger) staleAgainst(read record.Op) *record.Op {
	var newest *record.Op
	writes := l[ledgerKey(read)]
	for i := range writes {
		w := &writes[i]
		if w.Outcome == record.OK && w.Return < read.Call && l.older(read, *w) && (newest == nil || w.Return > newest.Return) {
			newest = w
		}
	}
	return newest
}

// older tells whether what a read returned was certainly replaced by w, a write
// that was acknowledged before the read was called.
func (l ledger) older(read, w record.Op) bool {
	if w.Type == record.OpDelete {
		// Only a revision tells an old object from one created anew.
		r, rok := revision(read)
		d, dok := revision(w)
		return read.Found && rok && dok && r < d
	}
	if !read.Found {
		return !l.mayBeDeleted(read, w)
	}
	if read.Value == w.Value {
		return false
	}
	r, rok := revision(read)
	n, nok := revision(w)
	if rok && nok {
		return r < n
	}
	for _, src := range l[ledgerKey(read)] {
		if src.Type != record.OpDelete && src.Value == read.Value {
			// A write of unknown outcome may have taken effect at any later time.
			return src.Outcome == record.OK && src.Return < w.Call
		}
	}
	return false
}

// mayBeDeleted tells whether some delete may have come between w and the read.
func (l ledger) mayBeDeleted(read, w record.Op) bool {
	for _, d := range l[ledgerKey(read)] {
		if d.Type == record.OpDelete && d.Call < read.Return && (d.Outcome != record.OK || d.Return > w.Call) {
			return true
		}
	}
	return false
}

func revision(op record.Op) (uint64, bool) {
	n, err := strconv.ParseUint(op.Revision, 10, 64)
	return n, err == nil && n > 0
}

// pair is an ordered pair of names.
type pair struct{ from, to string }

func orderedPairs(names []string) []pair {
	var pairs []pair
	for _, a := range names {
		for _, b := range names {
			if a != b {
				pairs = append(pairs, pair{a, b})
			}
		}
	}
	return pairs
}

// crossReads holds reads against the write before them: for each ordered pair,
// whether a read through the second returned exactly what was written through
// the first. wrong is the first read that returned something else.
type crossReads struct {
	seen  map[pair]bool
	wrong *wrongRead
	lost  map[pair]string // what went wrong with reads that returned nothing
}

type wrongRead struct {
	pair  pair
	write record.Op
	read  record.Op
}

// matchReads pairs every read with the newest write on its key that was
// acknowledged before the read was called.
func matchReads(writes, reads []record.Op) crossReads {
	c := crossReads{seen: map[pair]bool{}, lost: map[pair]string{}}
	for i := range reads {
		read := reads[i]
		var newest *record.Op
		for j := range writes {
			w := &writes[j]
			if w.Key == read.Key && w.Outcome == record.OK && w.Return < read.Call && (newest == nil || w.Return > newest.Return) {
				newest = w
			}
		}
		if newest == nil || newest.Entrance == read.Entrance {
			continue
		}
		p := pair{newest.Entrance, read.Entrance}
		switch {
		case read.Outcome != record.OK:
			c.lost[p] = describe(read)
		case read.Found && read.Value == newest.Value:
			c.seen[p] = true
		case concurrentValue(writes, read, *newest):
			// Another write was under way; its value is as good.
		case c.wrong == nil:
			c.wrong = &wrongRead{p, *newest, read}
		}
	}
	return c
}

// concurrentValue tells whether the read returned the value of a write that
// was not over when the newest one began or the read was called.
func concurrentValue(writes []record.Op, read, newest record.Op) bool {
	for _, w := range writes {
		if w.Key == read.Key && read.Found && w.Value == read.Value && w.Outcome != record.Refused && w.Call < read.Return &&
			(w.Outcome == record.Unknown || w.Return >= newest.Call) {
			return true
		}
	}
	return false
}

// missing returns the pairs that no read has shown, for people.
func (c crossReads) missing(pairs []pair) (list []string) {
	for _, p := range pairs {
		if !c.seen[p] {
			s := p.from + " to " + p.to
			if why := c.lost[p]; why != "" {
				s += " (" + why + ")"
			}
			list = append(list, s)
		}
	}
	return list
}
