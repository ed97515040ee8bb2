package judge

import (
	"cmp"
	"slices"

	"github.com/holdfast-ha/holdfast/framework/record"
)

// session is what one client did with one key.
type session struct {
	client, key string
	ops         []record.Op // answered, by their calls
}

// sessions returns the answered operations that keep accepts, by client and key.
func sessions(ops []record.Op, keep func(record.Op) bool) []*session {
	byKey := map[[2]string]*session{}
	var list []*session
	for _, op := range ops {
		if op.Client == "" || aside(op) || op.Outcome != record.OK || !keep(op) {
			continue
		}
		id := [2]string{op.Client, ledgerKey(op)}
		if byKey[id] == nil {
			byKey[id] = &session{client: op.Client, key: op.Key}
			list = append(list, byKey[id])
		}
		byKey[id].ops = append(byKey[id].ops, op)
	}
	for _, s := range list {
		slices.SortStableFunc(s.ops, func(a, b record.Op) int { return cmp.Compare(a.Call, b.Call) })
	}
	return list
}

func newerRead(a, b record.Op) bool {
	x, xok := revision(a)
	y, yok := revision(b)
	return xok && (!yok || x > y)
}
