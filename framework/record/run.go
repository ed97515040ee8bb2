package record

import (
	"errors"
	"fmt"
	"io"
)

// Timed is an observation with the time at which it was appended.
type Timed[T any] struct {
	At Nanos
	V  T
}

// Run is a record gathered by kind; each list is in the record's order.
type Run struct {
	Meta      Meta
	Ops       []Timed[Op]
	Probes    []Timed[Probe]
	Endpoints []Timed[Endpoints]
	Leases    []Timed[Lease]
	Etcd      []Timed[EtcdStatus]
	Processes []Timed[ProcessState]
	Faults    []Timed[Fault]
	Steadies  []Timed[Steady]
	Phases    []Timed[Phase]
	Harness   []Timed[Harness]
	Lists     []Timed[List]
	Watches   []Timed[Watch]
	Events    []Timed[Event]
	Actions   []Timed[Action]
	Backends  []Timed[Backend]
	// Complete tells whether the record ends with an end entry and is
	// undamaged up to there.
	Complete bool
	// End is the end entry of a complete record.
	End End
	// EndAt is the time of the last entry that could be read.
	EndAt Nanos
	// Problem says on which line a record that is not Complete stops being
	// one, and why. What is gathered comes from the lines before it.
	Problem string
}

// Read reads the record in dir. A record that was cut short or damaged is
// returned as far as it can be trusted, with Complete false and Problem set; an
// error means that nothing of it can be used.
func Read(dir string) (*Run, error) {
	r, err := Open(dir)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return Gather(r)
}

// Gather reads what is left of r into a Run.
func Gather(r *Reader) (*Run, error) {
	run := &Run{Meta: r.Meta()}
	for {
		entry, err := r.Next()
		if err == nil {
			if err = run.add(entry); err != nil {
				err = r.damage("%v", err)
			}
		}
		var damage *Damage
		switch {
		case err == nil:
			run.EndAt = entry.At
		case errors.Is(err, io.EOF):
			run.Complete = true
			return run, nil
		case errors.As(err, &damage):
			run.End = End{}
			run.Problem = fmt.Sprintf("line %d: %s", damage.Line, damage.Reason)
			return run, nil
		default:
			return nil, err
		}
	}
}

func (run *Run) add(e Entry) error {
	switch e.Kind {
	case KindOp:
		return gather(&run.Ops, e)
	case KindProbe:
		return gather(&run.Probes, e)
	case KindEndpoints:
		return gather(&run.Endpoints, e)
	case KindLease:
		return gather(&run.Leases, e)
	case KindEtcd:
		return gather(&run.Etcd, e)
	case KindProcess:
		return gather(&run.Processes, e)
	case KindFault:
		return gather(&run.Faults, e)
	case KindSteady:
		return gather(&run.Steadies, e)
	case KindPhase:
		return gather(&run.Phases, e)
	case KindHarness:
		return gather(&run.Harness, e)
	case KindList:
		return gather(&run.Lists, e)
	case KindWatch:
		return gather(&run.Watches, e)
	case KindEvent:
		return gather(&run.Events, e)
	case KindAction:
		return gather(&run.Actions, e)
	case KindBackend:
		return gather(&run.Backends, e)
	case KindEnd:
		return decode(e.Data, &run.End)
	}
	return fmt.Errorf("entries of kind %q are unknown", e.Kind)
}

func gather[T any](list *[]Timed[T], e Entry) error {
	t := Timed[T]{At: e.At}
	if err := decode(e.Data, &t.V); err != nil {
		return err
	}
	*list = append(*list, t)
	return nil
}
