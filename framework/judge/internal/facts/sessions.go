package facts

import (
	"cmp"
	"slices"

	"github.com/holdfast-ha/holdfast/framework/record"
)

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
