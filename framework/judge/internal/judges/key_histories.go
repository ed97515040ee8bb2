package judges

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/holdfast-ha/holdfast/framework/judge/internal/facts"
	"github.com/holdfast-ha/holdfast/framework/judge/internal/text"
	"github.com/holdfast-ha/holdfast/framework/record"
)

// LinearizeLimit is the computing time that the check of one record may take.
const LinearizeLimit = 60 * time.Second

// keyHistories are the operations on the keys of one API, by key.
type keyHistories struct {
	keys []string // sorted
	ops  map[string][]record.Op
	seen facts.Sightings
	// writes, reads and lists were answered.
	writes, reads, lists int
	met                  map[string]*encounters // with the check's fault, by entrance
}

// newKeyHistories gathers the writes and quorum reads of one API. The finding says why
// they cannot be judged, if so.
func newKeyHistories(m *facts.Case, api string) (*keyHistories, *Finding) {
	h := &keyHistories{ops: map[string][]record.Op{}, met: map[string]*encounters{}, seen: facts.Sighted(m.Run, api)}
	for _, op := range facts.OwnOps(m.Run) {
		if op.API != api || !(facts.IsWrite(op.Type) || facts.IsQuorumRead(op)) {
			continue
		}
		if op.Return < op.Call {
			return nil, Inconclusive("the history cannot be judged: an operation returns before its call (%s)", text.Describe(op)).problem()
		}
		h.ops[op.Key] = append(h.ops[op.Key], op)
		if read := facts.Response(op); read != nil {
			h.ops[op.Key] = append(h.ops[op.Key], *read)
		}
		if op.Outcome == record.OK && facts.IsWrite(op.Type) {
			h.writes++
		} else if op.Outcome == record.OK {
			h.reads++
		}
		if m.Meets(op.Call) {
			if h.met[op.Entrance] == nil {
				h.met[op.Entrance] = &encounters{}
			}
			h.met[op.Entrance].add(op)
		}
	}
	h.addLists(m, api)
	h.keys = slices.Sorted(maps.Keys(h.ops))
	return h, nil
}

// addLists adds what quorum lists say of the keys that are written or read.
func (h *keyHistories) addLists(m *facts.Case, api string) {
	keys := map[string][]string{} // by collection
	for key, ops := range h.ops {
		if c := ops[0].Collection; c != "" {
			keys[c] = append(keys[c], key)
		}
	}
	for _, l := range m.QuorumLists(api) {
		if len(keys[l.Collection]) == 0 || l.Return < l.Call {
			continue
		}
		h.lists++
		for _, read := range l.Reads(keys[l.Collection]) {
			h.ops[read.Key] = append(h.ops[read.Key], read)
		}
	}
}

func (h *keyHistories) traffic(reads string) string {
	s := fmt.Sprintf("%d acknowledged writes and %d %s reads", h.writes, h.reads, reads)
	if h.lists > 0 {
		s = fmt.Sprintf("%d acknowledged writes, %d %s reads and %d lists", h.writes, h.reads, reads, h.lists)
	}
	return s
}

func (h *keyHistories) size() string {
	n := 0
	for _, ops := range h.ops {
		n += len(ops)
	}
	return fmt.Sprintf("%s on %s", text.Plural(n, "operation"), text.Plural(len(h.keys), "key"))
}

// judge decides on each key alone, within the limits of computing time and of room in
// bytes.
func (h *keyHistories) judge(limit time.Duration, room int64) Finding {
	bounds := Search{Time: NewAllowance(limit), Room: room}
	defer bounds.Time.timer.Stop()
	var open []*trial
	for _, key := range h.keys {
		if t := NewTrial(bounds, key, h.ops[key], h.seen); !t.Replay() {
			open = append(open, t)
		}
	}
	for _, t := range open {
		if t.Refute() {
			return t.Explain().counted("%s", h.size())
		}
	}
	var undecided *Finding
	for _, t := range open {
		switch t.Decide() {
		case porcupine.Illegal:
			return t.Explain().counted("%s", h.size())
		case porcupine.Unknown:
			f := Inconclusive("the linearizability checker ran out of time (%s) or memory (%d MiB) on %d operations on %s, %d of them of unknown outcome",
				limit, room>>20, len(t.ops), t.key, t.unknown()).exhibits(t.lost()).counted("%s", h.size())
			undecided = cmp.Or(undecided, &f)
		}
	}
	if undecided != nil {
		return *undecided
	}
	return Passed("The history of each of %s is linearizable.", text.Plural(len(h.keys), "key"))
}
