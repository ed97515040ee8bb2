package judge

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

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
	return op.API == apiKubernetes && !aside(op)
}

// aside tells whether an operation is on no register.
func aside(op record.Op) bool { return isLook(op) || op.Purpose == purposeFailover }

// ownOps returns the operations on keys that no client changes but the clients in the
// record. In a record that has collections, traffic on keys of none is on others'.
func ownOps(run *record.Run) []record.Op {
	collections := slices.ContainsFunc(run.Ops, func(o record.Timed[record.Op]) bool { return o.V.Collection != "" })
	var ops []record.Op
	for _, o := range run.Ops {
		if op := o.V; !aside(op) && (op.Collection != "" || op.Purpose != "" || !collections) {
			ops = append(ops, op)
		}
	}
	return ops
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
		if pr := p.V; pr.Entrance == entrance && pr.Kind == record.ProbeWrite {
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

// lockReads returns the reads of locks by component, in the record's order.
func lockReads(run *record.Run) map[string][]record.Op {
	reads := map[string][]record.Op{}
	for _, o := range run.Ops {
		if op := o.V; op.Purpose == "lock" {
			component := op.Key[strings.LastIndexByte(op.Key, '/')+1:]
			reads[component] = append(reads[component], op)
		}
	}
	return reads
}
