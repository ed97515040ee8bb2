package record

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
)

// Kind is the kind of an entry.
type Kind string

const (
	KindMeta      Kind = "meta"      // Meta; the first entry
	KindOp        Kind = "op"        // Op
	KindProbe     Kind = "probe"     // Probe
	KindEndpoints Kind = "endpoints" // Endpoints
	KindLease     Kind = "lease"     // Lease
	KindEtcd      Kind = "etcd"      // EtcdStatus
	KindProcess   Kind = "process"   // ProcessState
	KindFault     Kind = "fault"     // Fault
	KindSteady    Kind = "steady"    // Steady
	KindPhase     Kind = "phase"     // Phase
	KindHarness   Kind = "harness"   // Harness
	KindList      Kind = "list"      // List
	KindWatch     Kind = "watch"     // Watch
	KindEvent     Kind = "event"     // Event
	KindAction    Kind = "action"    // Action
	KindBackend   Kind = "backend"   // Backend
	KindNode      Kind = "node"      // NodeChange
	KindStep      Kind = "step"      // Step
	KindObject    Kind = "object"    // Object
	KindSession   Kind = "session"   // Session
	KindEnd       Kind = "end"       // End; the last entry of a complete record
)

// table has a row for every kind of entry, in the order of the documentation: the list of a Run
// that collects its entries, and what a Filter can match.
var table = []row{
	{kind: KindMeta, value: valueOf[Meta]},
	entry(KindPhase, func(r *Run, _ Phase) *[]Timed[Phase] { return &r.Phases }, nil),
	entry(KindOp, func(r *Run, _ Op) *[]Timed[Op] { return &r.Ops },
		func(v Op) subject { return subject{[]string{v.Entrance}, v.Client, []string{v.Key}} }),
	entry(KindProbe, func(r *Run, v Probe) *[]Timed[Probe] {
		switch {
		case v.User != "":
			return &r.UserProbes
		case v.Client != "":
			return &r.ClientProbes
		}
		return &r.Probes
	}, func(v Probe) subject { return subject{places: []string{v.Entrance}} }),
	entry(KindEndpoints, func(r *Run, _ Endpoints) *[]Timed[Endpoints] { return &r.Endpoints },
		func(v Endpoints) subject { return subject{places: []string{v.Via}} }),
	entry(KindLease, func(r *Run, _ Lease) *[]Timed[Lease] { return &r.Leases },
		func(v Lease) subject { return subject{places: []string{v.Via, v.HolderNode}} }),
	entry(KindEtcd, func(r *Run, _ EtcdStatus) *[]Timed[EtcdStatus] { return &r.Etcd },
		func(v EtcdStatus) subject { return subject{places: []string{v.Node}} }),
	entry(KindProcess, func(r *Run, _ ProcessState) *[]Timed[ProcessState] { return &r.Processes },
		func(v ProcessState) subject { return subject{places: []string{v.Node}} }),
	entry(KindFault, func(r *Run, _ Fault) *[]Timed[Fault] { return &r.Faults },
		func(v Fault) subject { return subject{places: append([]string{v.Node, v.Host}, v.Nodes...)} }),
	entry(KindSteady, func(r *Run, _ Steady) *[]Timed[Steady] { return &r.Steadies }, nil),
	entry(KindHarness, func(r *Run, _ Harness) *[]Timed[Harness] { return &r.Harness }, nil),
	entry(KindList, func(r *Run, _ List) *[]Timed[List] { return &r.Lists }, func(v List) subject {
		var keys []string
		for _, i := range v.Items {
			keys = append(keys, i.Key)
		}
		return subject{[]string{v.Entrance}, v.Client, keys}
	}),
	entry(KindWatch, func(r *Run, _ Watch) *[]Timed[Watch] { return &r.Watches },
		func(v Watch) subject { return subject{[]string{v.Entrance}, v.Client, []string{v.Key}} }),
	entry(KindEvent, func(r *Run, _ Event) *[]Timed[Event] { return &r.Events },
		func(v Event) subject { return subject{keys: []string{v.Key}} }), // the rest belongs to its watch
	entry(KindAction, func(r *Run, v Action) *[]Timed[Action] {
		if v.Verb == "" || v.Verb == "get" {
			return &r.Asked
		}
		return &r.Actions
	}, func(v Action) subject { return subject{places: []string{v.Node, v.Via}} }),
	entry(KindBackend, func(r *Run, _ Backend) *[]Timed[Backend] { return &r.Backends },
		func(v Backend) subject { return subject{places: []string{v.Name}} }),
	entry(KindNode, func(r *Run, v NodeChange) *[]Timed[NodeChange] {
		if v.Action != "" {
			return &r.Changes
		}
		return &r.Nodes
	}, func(v NodeChange) subject { return subject{places: []string{v.Node.Name}} }),
	entry(KindStep, func(r *Run, _ Step) *[]Timed[Step] { return &r.Steps },
		func(v Step) subject { return subject{places: []string{v.Node}} }),
	entry(KindObject, func(r *Run, _ Object) *[]Timed[Object] { return &r.Objects },
		func(v Object) subject { return subject{places: []string{v.Via}, keys: []string{v.Name}} }),
	entry(KindSession, func(r *Run, _ Session) *[]Timed[Session] { return &r.Sessions },
		func(v Session) subject { return subject{client: v.Client} }),
	{kind: KindEnd, value: valueOf[End], gather: func(r *Run, e Entry) error { return decode(e.Data, &r.End) }},
}

// row describes one kind of entry.
type row struct {
	kind    Kind
	typ     reflect.Type // of the values to append; nil for those that the writer makes itself
	value   func(Entry) (any, error)
	gather  func(*Run, Entry) error
	subject func(v any) subject
	// reworded replaces the texts of a value to append; see worded.
	reworded func(v any, of func(string) string) any
}

// subject is what an entry is about, for a Filter.
type subject struct {
	places []string // nodes and entrances that it is about or that it went through
	client string
	keys   []string
}

// checked is an entry that may be wrong although its data fits its type.
type checked interface{ check() error }

// entry returns the row of a kind whose entries are values of T. list returns the list that
// collects v, about is nil for entries without a place, client or key.
func entry[T any](kind Kind, list func(r *Run, v T) *[]Timed[T], about func(v T) subject) row {
	return row{kind: kind, typ: reflect.TypeFor[T](), value: valueOf[T], reworded: reworded[T],
		gather: func(r *Run, e Entry) error {
			var v T
			if err := decode(e.Data, &v); err != nil {
				return err
			}
			if c, ok := any(v).(checked); ok {
				if err := c.check(); err != nil {
					return err
				}
			}
			to := list(r, v)
			*to = append(*to, Timed[T]{e.At, v})
			return nil
		},
		subject: func(v any) subject {
			if about == nil {
				return subject{}
			}
			return about(v.(T))
		},
	}
}

// Kinds returns every kind of entry, in the order of the documentation.
func Kinds() []Kind {
	var kinds []Kind
	for _, r := range table {
		kinds = append(kinds, r.kind)
	}
	return kinds
}

// rowOf returns the row of a kind, nil if there is none.
func rowOf(kind Kind) *row {
	for i := range table {
		if table[i].kind == kind {
			return &table[i]
		}
	}
	return nil
}

// holds reports whether v, or the value that it points to, may be appended as an entry of this
// kind.
func (r *row) holds(v any) bool {
	typ := reflect.TypeOf(v)
	return r.typ != nil && typ != nil && (typ == r.typ || typ == reflect.PointerTo(r.typ))
}

// Value returns the entry's data as a value of the type that belongs to its
// kind: an Op for KindOp, and so on.
func (e Entry) Value() (any, error) {
	r := rowOf(e.Kind)
	if r == nil {
		return nil, fmt.Errorf("entries of kind %q are unknown", e.Kind)
	}
	return r.value(e)
}

func valueOf[T any](e Entry) (any, error) {
	var v T
	err := decode(e.Data, &v)
	return v, err
}

func decode(data json.RawMessage, v any) error {
	if len(data) == 0 || bytes.Equal(data, []byte("null")) {
		return errors.New("the entry holds no data")
	}
	if err := json.Unmarshal(data, v); err != nil {
		return fmt.Errorf("the entry's data does not fit its kind: %w", err)
	}
	return nil
}
