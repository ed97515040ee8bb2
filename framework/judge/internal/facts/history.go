package facts

import (
	"cmp"
	"slices"
	"strings"

	"github.com/holdfast-ha/holdfast/framework/judge/internal/text"
	"github.com/holdfast-ha/holdfast/framework/judge/verdict"
	"github.com/holdfast-ha/holdfast/framework/record"
)

const (
	APIKubernetes = "kubernetes"
	APIEtcd       = "etcd"
)

func IsWrite(t record.OpType) bool {
	return t == record.OpCreate || t == record.OpUpdate || t == record.OpPatch || t == record.OpDelete || t == record.OpPut
}

// IsQuorumRead reports whether an operation promises the newest state.
func IsQuorumRead(op record.Op) bool {
	return op.Type == record.OpGet &&
		(op.Consistency == "" || op.Consistency == "quorum" || op.Consistency == "linearizable")
}

// IsRegister reports whether an operation acts on a register through the Kubernetes API, whatever
// its purpose.
func IsRegister(op record.Op) bool {
	return op.API == APIKubernetes && !aside(op)
}

// aside reports whether an operation is not on a register.
func aside(op record.Op) bool { return isLook(op) || op.Purpose == PurposeFailover }

// OwnOps returns the operations on keys that only the clients in the record change. In a record
// with collections, traffic on keys outside of them is on keys that other clients change too,
// except in etcd, where every key of the traffic is its own.
func OwnOps(run *record.Run) []record.Op {
	collections := slices.ContainsFunc(run.Ops, func(o record.Timed[record.Op]) bool { return o.V.Collection != "" })
	var ops []record.Op
	for _, o := range run.Ops {
		if op := o.V; !aside(op) && (op.Collection != "" || op.Purpose != "" || op.API == APIEtcd || !collections) {
			ops = append(ops, op)
		}
	}
	return ops
}

// Attempt is one write that a client or a prober tried.
type Attempt struct {
	Call, Ret record.Nanos
	OK        bool
	Unsent    bool // no connection
	What      string
}

// Exhibit shows the attempt as a write that must not be acknowledged.
func (a Attempt) Exhibit() *verdict.Exhibit {
	return Exhibit("This write must not be acknowledged", Blamed(verdict.Span{Lane: "write", Label: a.What, From: a.Call, To: a.Ret}))
}

// WritesThrough returns every attempted write through an entrance, by clients and probers, in the
// order of their calls.
func WritesThrough(run *record.Run, entrance string) []Attempt {
	var all []Attempt
	for _, o := range run.Ops {
		if op := o.V; IsRegister(op) && op.Entrance == entrance && IsWrite(op.Type) {
			all = append(all, Attempt{op.Call, op.Return, op.Outcome == record.OK, op.Unsent, text.Describe(op)})
		}
	}
	for _, p := range run.Probes {
		if pr := p.V; pr.Entrance == entrance && pr.Kind == record.ProbeWrite {
			all = append(all, Attempt{pr.Start, pr.End, pr.OK, pr.Unsent, "write probe through " + entrance + " " + text.At(pr.Start)})
		}
	}
	slices.SortStableFunc(all, func(a, b Attempt) int { return cmp.Compare(a.Call, b.Call) })
	return all
}

// ReadsThrough returns every attempted quorum read through an entrance with its call in [from,
// to). One that was answered with something else than the object has no known outcome.
func ReadsThrough(run *record.Run, entrance string, from, to record.Nanos) []record.Op {
	var reads []record.Op
	for _, o := range run.Ops {
		if op := o.V; IsRegister(op) && op.Entrance == entrance && IsQuorumRead(op) && op.Call >= from && op.Call < to {
			if op.IsOther() {
				op.Outcome, op.Error = record.Unknown, op.Value
			}
			reads = append(reads, op)
		}
	}
	return reads
}

// Pair is an ordered pair of names.
type Pair struct{ From, To string }

func OrderedPairs(names []string) []Pair {
	var pairs []Pair
	for _, a := range names {
		for _, b := range names {
			if a != b {
				pairs = append(pairs, Pair{a, b})
			}
		}
	}
	return pairs
}

// crossReads compares reads with the write before them: for each ordered pair, whether a read
// through the second returned exactly what was written through the first. wrong is the first read
// that returned something else.
type crossReads struct {
	Seen  map[Pair]bool
	Wrong *wrongRead
	lost  map[Pair]string // what went wrong with reads that returned nothing
}

type wrongRead struct {
	Pair  Pair
	Write record.Op
	Read  record.Op
}

// MatchReads pairs every read with the newest write on its key that was
// acknowledged before the read was called.
func MatchReads(writes, reads []record.Op) crossReads {
	c := crossReads{Seen: map[Pair]bool{}, lost: map[Pair]string{}}
	known := newWriteLog(writes)
	for _, read := range reads {
		sources := known.Of(read).Sources[read.Value]
		newest := newestBefore(known.Of(read).Writes, read, func(record.Op) bool { return true })
		if newest == nil || newest.Entrance == read.Entrance {
			continue
		}
		p := Pair{newest.Entrance, read.Entrance}
		switch {
		case read.Outcome != record.OK:
			c.lost[p] = text.Describe(read)
		case read.Found && read.Value == newest.Value:
			c.Seen[p] = true
		case read.Found && len(sources) > 0 && !known.Before(read, newest.Call):
			// Another write was in flight; its value is as good.
		case c.Wrong == nil:
			c.Wrong = &wrongRead{p, *newest, read}
		}
	}
	return c
}

// Missing returns the pairs that no read has shown, as text.
func (c crossReads) Missing(pairs []Pair) (list []string) {
	for _, p := range pairs {
		if !c.Seen[p] {
			s := p.From + " to " + p.To
			if why := c.lost[p]; why != "" {
				s += " (" + why + ")"
			}
			list = append(list, s)
		}
	}
	return list
}

// LockReads returns the reads of locks by component, in the record's order.
func LockReads(run *record.Run) map[string][]record.Op {
	reads := map[string][]record.Op{}
	for _, o := range run.Ops {
		if op := o.V; op.Purpose == "lock" {
			component := op.Key[strings.LastIndexByte(op.Key, '/')+1:]
			reads[component] = append(reads[component], op)
		}
	}
	return reads
}

// Response returns, as a read, what the successful response to a write of a register showed, if
// that was something else than the register; nil otherwise. Whether the write took effect is
// unknown.
func Response(op record.Op) *record.Op {
	if !IsRegister(op) || !IsWrite(op.Type) || op.Outcome != record.Unknown ||
		!strings.HasPrefix(op.Error, "status 2") || !strings.Contains(op.Error, ", but no ConfigMap "+op.Key+": ") {
		return nil
	}
	return &record.Op{Client: op.Client, Entrance: op.Entrance, API: op.API, Type: record.OpGet, Key: op.Key, Collection: op.Collection, Purpose: text.PurposeResponse,
		Found: true, Value: record.OtherObject + op.Error, Call: op.Call, Return: op.Return, Outcome: record.OK}
}

// session is what one client did with one key.
type session struct {
	Client string
	Ops    []record.Op // answered, by their calls
}

// Sessions returns the answered operations that keep accepts, by client and key.
func Sessions(ops []record.Op, keep func(record.Op) bool) []*session {
	byKey := map[[2]string]*session{}
	var list []*session
	for _, op := range ops {
		if op.Client == "" || aside(op) || op.Outcome != record.OK || !keep(op) {
			continue
		}
		id := [2]string{op.Client, LoggedKey(op)}
		if byKey[id] == nil {
			byKey[id] = &session{Client: op.Client}
			list = append(list, byKey[id])
		}
		byKey[id].Ops = append(byKey[id].Ops, op)
	}
	for _, s := range list {
		slices.SortStableFunc(s.Ops, func(a, b record.Op) int { return cmp.Compare(a.Call, b.Call) })
	}
	return list
}

func NewerRead(a, b record.Op) bool { return record.Number(a.Revision) > record.Number(b.Revision) }
