package judge

import (
	"fmt"

	"github.com/holdfast-ha/holdfast/framework/judge/internal/facts"
	"github.com/holdfast-ha/holdfast/framework/record"
)

// manyWatches is a legal record of watches of one collection that show that many events
// together, a bookmark after every tenth, and lists: each watch continues from the one
// before it after a hundredth of them. Of every hundred writes one has no known
// outcome, and of those every other one took effect.
func manyWatches(events, watches, keys int) *record.Run {
	run := newStory().run
	writes := events / watches * 10 // each watch shows every tenth key's changes, or a stretch of all
	current := make([]uint64, keys)
	type made struct {
		key, value string
		rev        uint64
		first      bool
	}
	var history []made
	rev := uint64(100)
	for n := range writes {
		k := n % keys
		op := record.Op{Client: "c", Entrance: "node-1", API: facts.APIKubernetes, Type: record.OpPatch, Collection: "things", Key: fmt.Sprintf("k%03d", k),
			Value: fmt.Sprint("v", n), Call: record.Nanos(n * 1000), Return: record.Nanos(n*1000 + 500), Outcome: record.OK}
		if current[k] == 0 {
			op.Type = record.OpCreate
		} else if n%3 > 0 {
			op.Type, op.Expect = record.OpUpdate, fmt.Sprint(current[k])
		}
		unknown := n%100 == 99
		if !unknown || n%200 == 199 {
			rev++
			history = append(history, made{op.Key, op.Value, rev, current[k] == 0})
			current[k], op.Revision = rev, fmt.Sprint(rev)
		}
		if unknown {
			op.Outcome, op.Revision = record.Unknown, ""
		}
		run.Ops = append(run.Ops, record.Timed[record.Op]{At: op.Return, V: op})
	}
	each := events / watches
	for i := range watches {
		from := i * (len(history) - each) / watches
		at := record.Nanos(writes*1000 + i)
		w := record.Watch{ID: fmt.Sprint(i), Phase: record.WatchOpened, API: facts.APIKubernetes, Collection: "things", From: fmt.Sprint(100 + from), Called: at, Seen: at}
		if i > 0 {
			w.Resumes = fmt.Sprint(i - 1)
		}
		run.Watches = append(run.Watches, record.Timed[record.Watch]{At: at, V: w})
		for j, m := range history[from : from+each] {
			e := record.Event{Watch: w.ID, Type: record.EventModified, Key: m.key, Value: m.value, Revision: fmt.Sprint(m.rev), Seen: at}
			if m.first {
				e.Type = record.EventAdded
			}
			run.Events = append(run.Events, record.Timed[record.Event]{At: at, V: e})
			if j%10 == 9 {
				run.Events = append(run.Events, record.Timed[record.Event]{At: at, V: record.Event{Watch: w.ID, Type: record.EventBookmark, Revision: e.Revision, Seen: at}})
			}
		}
	}
	return run
}
