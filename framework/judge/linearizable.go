package judge

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/holdfast-ha/holdfast/framework/record"
)

// linearizeLimit is the computing time that the check of one record may take.
const linearizeLimit = 60 * time.Second

func linearizable() definition {
	return definition{Doc{
		Name:      "linearizable",
		Guarantee: "The history of reads and writes is linearizable: every quorum read returns the newest acknowledged write, an acknowledged write is never lost, and of several updates of one version exactly one wins.",
		Source:    "Automated HA master deployment; Kubernetes API concepts (resource versions)",
	}, func(m *matter) finding { return judgeLinearizable(m, linearizeLimit) }}
}

func judgeLinearizable(m *matter, limit time.Duration) finding {
	histories := map[string][]record.Op{}
	writes, reads := 0, 0
	for _, o := range m.run.Ops {
		op := o.V
		if !isRegister(op) || !(isWrite(op.Type) || isQuorumRead(op)) {
			continue
		}
		if op.Return < op.Call {
			return inconclusive("the history cannot be judged: an operation returns before its call (%s)", describe(op))
		}
		histories[op.Key] = append(histories[op.Key], op)
		if op.Outcome == record.OK && isWrite(op.Type) {
			writes++
		} else if op.Outcome == record.OK {
			reads++
		}
	}
	if writes == 0 || reads == 0 {
		return inconclusive("there was too little traffic: %d writes and %d quorum reads succeeded", writes, reads).
			counted("%d writes, %d reads", writes, reads)
	}

	var all []porcupine.Operation
	keys := slices.Sorted(maps.Keys(histories))
	for _, key := range keys {
		all = append(all, operations(histories[key])...)
	}
	switch porcupine.CheckOperationsTimeout(registerModel(), all, limit) {
	case porcupine.Ok:
		return passed("The history of %d acknowledged writes and %d quorum reads on %d keys is linearizable; no acknowledged write is lost.",
			writes, reads, len(keys)).counted("%d operations on %d keys", len(all), len(keys))
	case porcupine.Unknown:
		f := inconclusive("the linearizability checker ran out of time (%s) on %d operations on %d keys", limit, len(all), len(keys))
		f.binding = true
		return f
	}
	for _, key := range keys {
		if porcupine.CheckOperationsTimeout(registerModel(), operations(histories[key]), limit) == porcupine.Illegal {
			return explain(key, histories[key], limit).counted("%d operations on %d keys", len(all), len(keys))
		}
	}
	// Only if the checker ran out of time for the key that it had settled before.
	return failed("The history of reads and writes must be linearizable: it is not.")
}

// explain names the operation with whose return the history stops being
// linearizable. It looks for the shortest prefix that is not: what is
// linearizable up to some time is so up to any earlier time, so halving finds it.
func explain(key string, ops []record.Op, limit time.Duration) finding {
	returns := map[record.Nanos]bool{}
	for _, op := range ops {
		if op.Outcome == record.OK {
			returns[op.Return] = true
		}
	}
	times := slices.Sorted(maps.Keys(returns))
	i, _ := slices.BinarySearchFunc(times, true, func(t record.Nanos, _ bool) int {
		if porcupine.CheckOperationsTimeout(registerModel(), operations(prefix(ops, t)), limit) == porcupine.Illegal {
			return 0
		}
		return -1
	})
	if i == len(times) {
		return failed("The history of reads and writes must be linearizable: that of %s is not.", key)
	}
	var culprit record.Op
	for _, op := range ops {
		if op.Outcome == record.OK && op.Return == times[i] && (culprit.Key == "" || !isWrite(op.Type)) {
			culprit = op
		}
	}
	const must = "The history of reads and writes must be linearizable: that of %s is not. "
	rival := rivalOf(culprit, ops)
	sentence := fmt.Sprintf(must+"%s's %s cannot be explained", key, culprit.Client, describeShort(culprit))
	evidence := []string{describe(culprit)}
	if rival != nil {
		evidence = append(evidence, describe(*rival))
		relation := "although " + rival.Client + "'s " + describeShort(*rival) + " had been acknowledged " + at(rival.Return)
		if rival.Return >= culprit.Call {
			relation = "next to " + rival.Client + "'s " + describeShort(*rival) + ", acknowledged " + at(rival.Return)
		}
		sentence = fmt.Sprintf(must+"%s's %s, called %s, succeeded %s", key, culprit.Client, describeShort(culprit), at(culprit.Call), relation)
	}
	return failed("%s.", sentence).shows(evidence...)
}

// rivalOf finds the write that makes an operation impossible: an update of the
// same version, or the newest write that was acknowledged before.
func rivalOf(culprit record.Op, ops []record.Op) *record.Op {
	var rival *record.Op
	for i := range ops {
		op := &ops[i]
		if op.Outcome != record.OK || !isWrite(op.Type) || *op == culprit {
			continue
		}
		if culprit.Expect != "" && op.Expect == culprit.Expect {
			return op
		}
		if op.Return < culprit.Call && (rival == nil || op.Return > rival.Return) {
			rival = op
		}
	}
	return rival
}

func describeShort(op record.Op) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s through %s", op.Type, op.Entrance)
	switch {
	case op.Type == record.OpGet:
		b.WriteString(" returning " + quoted(op.Value, op.Found))
	case op.Type != record.OpDelete:
		fmt.Fprintf(&b, " of %q", op.Value)
	}
	if op.Expect != "" {
		b.WriteString(" over version " + op.Expect)
	}
	return b.String()
}

// prefix is the history as it stood at time t: what had not returned by then
// may or may not have taken effect.
func prefix(ops []record.Op, t record.Nanos) []record.Op {
	var out []record.Op
	for _, op := range ops {
		switch {
		case op.Call > t:
			continue
		case op.Return > t && isWrite(op.Type) && op.Outcome == record.OK:
			op.Outcome = record.Unknown
		case op.Return > t && op.Outcome == record.OK:
			continue
		}
		out = append(out, op)
	}
	return out
}
