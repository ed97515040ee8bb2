package facts

import (
	"cmp"

	"github.com/holdfast-ha/holdfast/framework/record"
)

// sighting is the first time that a client saw a value of a key.
type sighting struct {
	At       record.Nanos // when the response or message arrived
	Revision string
}

// Sightings are those of all keys by collection, key and value. Reads of every consistency count,
// and so do lists and watches: old values were written too.
type Sightings map[[3]string]sighting

// Sighted collects what clients of one API saw. Only lists and watches of a collection name it;
// operations on keys that other clients change too have none, and count only with their own
// reads.
func Sighted(run *record.Run, api string) Sightings {
	all := Sightings{}
	for _, o := range run.Ops {
		if op := o.V; op.API == api && !aside(op) && op.Type == record.OpGet && op.Outcome == record.OK && op.Found {
			all.add(op.Collection, op.Key, op.Value, op.Revision, op.Return)
		}
	}
	for _, l := range run.Lists {
		if l.V.API != api || l.V.Outcome != record.OK {
			continue
		}
		for _, item := range l.V.Items {
			all.add(l.V.Collection, item.Key, item.Value, item.Revision, l.V.Return)
		}
	}
	collections := map[string]string{}
	for _, w := range run.Watches {
		if w.V.API == api {
			collections[w.V.ID] = w.V.Collection
		}
	}
	for _, e := range run.Events {
		collection, known := collections[e.V.Watch]
		// The version of a deleted event is the version of the deletion.
		if known && (e.V.Type == record.EventAdded || e.V.Type == record.EventModified) {
			all.add(collection, e.V.Key, e.V.Value, e.V.Revision, e.V.Seen)
		}
	}
	return all
}

func (s Sightings) add(collection, key, value, revision string, at record.Nanos) {
	if value == "" {
		return
	}
	id := [3]string{collection, key, value}
	old, known := s[id]
	if !known || at < old.At {
		s[id] = sighting{at, cmp.Or(revision, old.Revision)}
	} else if old.Revision == "" {
		s[id] = sighting{old.At, revision}
	}
}

// Of returns when the value of a write was first seen.
func (s Sightings) Of(write record.Op) (sighting, bool) {
	seen, ok := s[[3]string{write.Collection, write.Key, write.Value}]
	return seen, ok
}
