package record

import "slices"

// Filter chooses entries of one record. Its zero value takes all. An entry without a node, client
// or key is left out if the filter sets one.
type Filter struct {
	Kinds []Kind
	Since Nanos // only what was appended then or later
	Until Nanos // only what was appended then or earlier; 0 for all
	// Node is a node or an entrance that the entry is about or that it went through.
	Node   string
	Client string
	Key    string

	watches map[string]Watch // the open ones, by ID: their events name nothing else
}

// Takes reports whether the filter takes an entry; v is the entry's value. Call it for every
// entry of the record, in order.
func (f *Filter) Takes(e Entry, v any) bool {
	if w, ok := v.(Watch); ok {
		f.remember(w)
	}
	if len(f.Kinds) > 0 && !slices.Contains(f.Kinds, e.Kind) || e.At < f.Since || f.Until != 0 && e.At > f.Until {
		return false
	}
	about := f.subject(e.Kind, v)
	return (f.Node == "" || slices.Contains(about.places, f.Node)) &&
		(f.Client == "" || about.client == f.Client) &&
		(f.Key == "" || slices.Contains(about.keys, f.Key))
}

func (f *Filter) subject(kind Kind, v any) subject {
	r := rowOf(kind)
	if r == nil || r.subject == nil {
		return subject{}
	}
	about := r.subject(v)
	if event, ok := v.(Event); ok {
		w := f.watches[event.Watch]
		about.places, about.client = []string{w.Entrance}, w.Client
	}
	return about
}

func (f *Filter) remember(w Watch) {
	switch {
	case w.Phase == WatchEnded:
		delete(f.watches, w.ID)
	case w.Phase == WatchOpened && f.watches == nil:
		f.watches = map[string]Watch{w.ID: w}
	case w.Phase == WatchOpened:
		f.watches[w.ID] = w
	}
}
