package judges

import (
	"hash/fnv"
	"io"
	"math"
	"slices"

	"github.com/anishathalye/porcupine"

	"github.com/holdfast-ha/holdfast/framework/judge/internal/facts"
	"github.com/holdfast-ha/holdfast/framework/record"
)

// register is the state of one key.
type register struct {
	// fresh is true until the first operation that shows the value: a key may have had one before
	// the record started. If it is present, it had one.
	fresh   bool
	present bool
	value   string
	// revision is empty if the record does not show it: after a write whose outcome the client
	// never learned and whose value no client read.
	revision string
}

// A refusal counts as a read of the key's state. A refusal because the key was absent is a get of
// nothing; these are the others.
const (
	opPresent record.OpType = "present" // the key exists
	opOther   record.OpType = "other"   // it does not have the version Expect
)

// action is one operation on a register, as the model sees it.
type action struct {
	record.Op
	// refused is the write whose refusal the action is, nil otherwise.
	refused *record.Op
	// initial marks a read of a value that no client in the record wrote: it can only be the
	// value from before.
	initial bool
	// strange marks a write that compares with a version which the record does not show for any
	// write.
	strange bool
}

// told returns the operation as recorded.
func (a action) told() record.Op {
	if a.refused != nil {
		return *a.refused
	}
	return a.Op
}

// Evidence reports whether a refusal says anything about the state of its key.
func Evidence(op record.Op) bool { return op.Outcome == record.Refused && op.Refusal != "" }

// asRead returns what the refusal of a write says, as a read.
func asRead(op record.Op) action {
	read := record.Op{Client: op.Client, Entrance: op.Entrance, API: op.API, Type: record.OpGet, Key: op.Key, Collection: op.Collection,
		Call: op.Call, Return: op.Return, Outcome: record.OK}
	switch op.Refusal {
	case record.RefusedPresent:
		read.Type = opPresent
	case record.RefusedVersion:
		read.Type, read.Expect = opOther, op.Expect
	}
	return action{Op: read, refused: &op}
}

// RegisterModel returns the model of one key.
func RegisterModel() porcupine.Model {
	return porcupine.Model{
		Init: func() any { return register{fresh: true} },
		Step: func(state, input, _ any) (bool, any) {
			ok, next := step(state.(register), input.(action))
			return ok, next
		},
		Hash: func(state any) uint64 {
			r := state.(register)
			h := fnv.New64a()
			io.WriteString(h, r.value)
			h.Write([]byte{0, b2i(r.fresh), b2i(r.present)})
			io.WriteString(h, r.revision)
			return h.Sum64()
		},
	}
}

func b2i(b bool) byte {
	if b {
		return 1
	}
	return 0
}

// step reports whether an operation can have had its outcome in a state, and the state after it.
// A write of unknown outcome always can: if its precondition does not hold, it had no effect.
func step(s register, a action) (bool, register) {
	next := register{present: true, value: a.Value, revision: a.Revision}
	acked := a.Outcome == record.OK
	switch a.Type {
	case record.OpGet:
		switch {
		case !a.Found:
			return !s.present, register{}
		case s.fresh:
			return a.initial, next
		case !s.present || s.value != a.Value:
			return false, s
		case s.revision == "":
			return true, next
		}
		return a.Revision == "" || a.Revision == s.revision, s
	case opPresent:
		return s.fresh || s.present, register{fresh: s.fresh, present: true, value: s.value, revision: s.revision}
	case opOther:
		return s.fresh || !s.present || s.revision == "" || s.revision != a.Expect, s
	case record.OpCreate:
		if !s.present {
			return true, next
		}
		return !acked, s
	case record.OpUpdate, record.OpPatch, record.OpPut:
		if a.Type == record.OpPut || s.fresh || s.present && fits(s, a) {
			return true, next
		}
		return !acked, s
	case record.OpDelete:
		if s.fresh || s.present && fits(s, a) {
			return true, register{}
		}
		return !acked, s
	}
	return false, s
}

// fits reports whether a compare-and-swap can succeed. Versions are unique, so one
// that the record shows to be another write's is not the unknown one.
func fits(s register, a action) bool {
	return a.Expect == "" || s.revision == a.Expect || s.revision == "" && a.strange
}

// Operations turns the history of one key into the checker's input.
//
// Refused operations had no effect: what they say about the key is a read. Those that say nothing
// are left out, as are reads without an answer. A write of unknown outcome may take effect at any
// time after its call, so it never returns; those that cannot matter are left out, since each of
// them doubles the checker's work.
func Operations(ops []record.Op) []porcupine.Operation { return Actions(ops, useful(ops)) }

// Actions turns kept, some of the operations of one key, into the checker's input.
func Actions(ops, kept []record.Op) []porcupine.Operation {
	tried := map[string]bool{} // values of writes; a refused one has no effect
	versions := map[string]bool{}
	read := map[string]string{} // version of a value, as a read returned it
	for _, op := range ops {
		if facts.IsWrite(op.Type) && op.Type != record.OpDelete {
			tried[op.Value] = true
		}
		if op.Outcome == record.OK {
			versions[op.Revision] = true
		}
		if op.Outcome == record.OK && op.Type == record.OpGet && op.Found && op.Revision != "" {
			read[op.Value] = op.Revision
		}
	}
	out := make([]porcupine.Operation, 0, len(kept))
	for _, op := range kept {
		if Evidence(op) {
			out = append(out, porcupine.Operation{Call: int64(op.Call), Return: int64(op.Return), Input: asRead(op)})
			continue
		}
		ret := int64(op.Return)
		if op.Outcome == record.Unknown {
			ret = math.MaxInt64
		}
		if facts.IsWrite(op.Type) && op.Type != record.OpDelete && op.Revision == "" {
			op.Revision = read[op.Value]
		}
		out = append(out, porcupine.Operation{Call: int64(op.Call), Return: ret, Input: action{
			Op:      op,
			initial: op.Type == record.OpGet && op.Found && !tried[op.Value] && !op.IsOther(),
			strange: op.Expect != "" && !versions[op.Expect],
		}})
	}
	return out
}

// useful returns the operations of one key that can matter to whether its
// history is linearizable.
//
// Values are unique, so an update or create of unknown outcome matters only if a client saw its
// value, or another write depends on it: one that compares with a version that no acknowledged
// write or read has (it may be this one's), or, for a create or put, one that needs the key to
// exist (an acknowledged delete, a patch, an update of any version, a refusal because it exists).
// Any also matters that was called before a write was refused because the key had another
// version. Without that, a history in which it took effect is legal only if the one in which it
// did not is.
//
// A delete of unknown outcome matters only if something that needs the key to
// be absent (a read of nothing, a create, a refusal) ended after its call.
func useful(ops []record.Op) []record.Op {
	seen := map[string]bool{}
	versions := map[string]bool{}
	for _, op := range ops {
		if op.Outcome == record.OK {
			versions[op.Revision] = true
			if op.Type == record.OpGet && op.Found {
				seen[op.Value] = true
			}
		}
	}
	strangeVersion, needsPresence := false, false
	var other record.Nanos = -1 // the last end of a write that was refused for its version
	for _, op := range ops {
		if Evidence(op) {
			needsPresence = needsPresence || op.Refusal == record.RefusedPresent
			if op.Refusal == record.RefusedVersion {
				other = max(other, op.Return)
			}
		}
		if op.Outcome == record.Refused || !facts.IsWrite(op.Type) {
			continue
		}
		if op.Expect != "" && !versions[op.Expect] {
			strangeVersion = true
		}
		if op.Type == record.OpDelete && op.Outcome == record.OK || op.Type == record.OpPatch ||
			op.Type == record.OpUpdate && op.Expect == "" {
			needsPresence = true
		}
	}
	kept := slices.DeleteFunc(slices.Clone(ops), func(op record.Op) bool {
		switch {
		case op.Outcome == record.OK || Evidence(op):
			return false
		case op.Outcome == record.Refused || !facts.IsWrite(op.Type):
			return true
		case op.Call <= other:
			return false
		case op.Type == record.OpDelete || seen[op.Value] || strangeVersion:
			return false
		}
		return op.Type != record.OpCreate && op.Type != record.OpPut || !needsPresence
	})
	absent := other // the last end of an operation that may need the key to be absent
	for _, op := range kept {
		switch {
		case Evidence(op):
			if op.Refusal == record.RefusedAbsent {
				absent = max(absent, op.Return)
			}
		case op.Type == record.OpGet && !op.Found:
			absent = max(absent, op.Return)
		case op.Type == record.OpCreate && op.Outcome == record.Unknown:
			absent = math.MaxInt64
		case op.Type == record.OpCreate:
			absent = max(absent, op.Return)
		}
	}
	return slices.DeleteFunc(kept, func(op record.Op) bool {
		return op.Type == record.OpDelete && op.Outcome == record.Unknown && absent < op.Call
	})
}
