package record

import "slices"

// Filter chooses entries of one record. Its zero value takes all. An entry that has
// no node, client or key is left out where one is asked for.
type Filter struct {
	Kinds []Kind
	Since Nanos // only what was appended then or later
	Until Nanos // only what was appended then or earlier; 0 for all
	// Node is a node or an entrance that the entry is about or came through.
	Node   string
	Client string
	Key    string

	watches map[string]Watch // those that are open, by ID: their events name nothing else
}

// Takes tells whether an entry is one of those; v is the entry's value. It is to be
// asked for every entry of the record, in its order.
func (f *Filter) Takes(e Entry, v any) bool {
	if w, ok := v.(Watch); ok {
		f.remember(w)
	}
	return (len(f.Kinds) == 0 || slices.Contains(f.Kinds, e.Kind)) &&
		e.At >= f.Since && (f.Until == 0 || e.At <= f.Until) &&
		(f.Node == "" || slices.Contains(f.places(v), f.Node)) &&
		(f.Client == "" || f.client(v) == f.Client) &&
		(f.Key == "" || hasKey(v, f.Key))
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

// places are the nodes and entrances that an entry is about or came through.
func (f *Filter) places(v any) []string {
	switch v := v.(type) {
	case Op:
		return []string{v.Entrance}
	case Probe:
		return []string{v.Entrance}
	case Endpoints:
		return []string{v.Via}
	case Lease:
		return []string{v.Via, v.HolderNode}
	case EtcdStatus:
		return []string{v.Node}
	case ProcessState:
		return []string{v.Node}
	case Fault:
		return append([]string{v.Node, v.Host}, v.Nodes...)
	case List:
		return []string{v.Entrance}
	case Watch:
		return []string{v.Entrance}
	case Event:
		return []string{f.watches[v.Watch].Entrance}
	case Action:
		return []string{v.Node, v.Via}
	case Backend:
		return []string{v.Name}
	case NodeChange:
		return []string{v.Node.Name}
	case Step:
		return []string{v.Node}
	case Object:
		return []string{v.Via}
	}
	return nil
}

func (f *Filter) client(v any) string {
	switch v := v.(type) {
	case Op:
		return v.Client
	case List:
		return v.Client
	case Watch:
		return v.Client
	case Event:
		return f.watches[v.Watch].Client
	case Session:
		return v.Client
	}
	return ""
}

func hasKey(v any, key string) bool {
	switch v := v.(type) {
	case Op:
		return v.Key == key
	case List:
		return slices.ContainsFunc(v.Items, func(i Item) bool { return i.Key == key })
	case Watch:
		return v.Key == key
	case Event:
		return v.Key == key
	case Object:
		return v.Name == key
	}
	return false
}
