package record

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
)

// Kinds returns every kind of entry, in the order of the documentation.
func Kinds() []Kind {
	return []Kind{KindMeta, KindPhase, KindOp, KindProbe, KindEndpoints, KindLease, KindEtcd, KindProcess, KindFault,
		KindSteady, KindHarness, KindList, KindWatch, KindEvent, KindAction, KindBackend, KindNode, KindStep, KindObject, KindSession, KindEnd}
}

// kindOf returns the kind of entry that holds a value of v's type.
func kindOf(v any) (Kind, bool) {
	switch v.(type) {
	case Op, *Op:
		return KindOp, true
	case Probe, *Probe:
		return KindProbe, true
	case Endpoints, *Endpoints:
		return KindEndpoints, true
	case Lease, *Lease:
		return KindLease, true
	case EtcdStatus, *EtcdStatus:
		return KindEtcd, true
	case ProcessState, *ProcessState:
		return KindProcess, true
	case Fault, *Fault:
		return KindFault, true
	case Steady, *Steady:
		return KindSteady, true
	case Phase, *Phase:
		return KindPhase, true
	case Harness, *Harness:
		return KindHarness, true
	case List, *List:
		return KindList, true
	case Watch, *Watch:
		return KindWatch, true
	case Event, *Event:
		return KindEvent, true
	case Action, *Action:
		return KindAction, true
	case Backend, *Backend:
		return KindBackend, true
	case NodeChange, *NodeChange:
		return KindNode, true
	case Step, *Step:
		return KindStep, true
	case Object, *Object:
		return KindObject, true
	case Session, *Session:
		return KindSession, true
	}
	return "", false
}

// Value returns the entry's data as a value of the type that belongs to its
// kind: an Op for KindOp, and so on.
func (e Entry) Value() (any, error) {
	switch e.Kind {
	case KindMeta:
		return valueOf[Meta](e)
	case KindOp:
		return valueOf[Op](e)
	case KindProbe:
		return valueOf[Probe](e)
	case KindEndpoints:
		return valueOf[Endpoints](e)
	case KindLease:
		return valueOf[Lease](e)
	case KindEtcd:
		return valueOf[EtcdStatus](e)
	case KindProcess:
		return valueOf[ProcessState](e)
	case KindFault:
		return valueOf[Fault](e)
	case KindSteady:
		return valueOf[Steady](e)
	case KindPhase:
		return valueOf[Phase](e)
	case KindHarness:
		return valueOf[Harness](e)
	case KindList:
		return valueOf[List](e)
	case KindWatch:
		return valueOf[Watch](e)
	case KindEvent:
		return valueOf[Event](e)
	case KindAction:
		return valueOf[Action](e)
	case KindBackend:
		return valueOf[Backend](e)
	case KindNode:
		return valueOf[NodeChange](e)
	case KindStep:
		return valueOf[Step](e)
	case KindObject:
		return valueOf[Object](e)
	case KindSession:
		return valueOf[Session](e)
	case KindEnd:
		return valueOf[End](e)
	}
	return nil, fmt.Errorf("entries of kind %q are unknown", e.Kind)
}

func valueOf[T any](e Entry) (v T, err error) {
	err = decode(e.Data, &v)
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
