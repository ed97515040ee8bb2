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
	Meta   Meta
	Ops    []Timed[Op]
	Probes []Timed[Probe] // of HTTP/1.1
	// ClientProbes are the probes of clients as users of client-go have them.
	ClientProbes []Timed[Probe]
	// UserProbes are those of an account whose rights come from a role.
	UserProbes []Timed[Probe]
	Endpoints  []Timed[Endpoints]
	Leases     []Timed[Lease]
	Etcd       []Timed[EtcdStatus]
	Processes  []Timed[ProcessState]
	Faults     []Timed[Fault]
	Steadies   []Timed[Steady]
	Phases     []Timed[Phase]
	Harness    []Timed[Harness]
	Lists      []Timed[List]
	Watches    []Timed[Watch]
	Events     []Timed[Event]
	Actions    []Timed[Action]
	// Asked are entries of audit logs that are not actions, see Action.
	Asked    []Timed[Action]
	Backends []Timed[Backend]
	// Nodes are the changes of which nodes there are, Changes all others.
	Nodes    []Timed[NodeChange]
	Changes  []Timed[NodeChange]
	Steps    []Timed[Step]
	Objects  []Timed[Object]
	Sessions []Timed[Session]
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

// gatherLimit is how many bytes of lines Gather takes; a busy hour has about a
// fifth of it. A few compressed bytes can stand for any number of lines.
const gatherLimit = 2 << 30

// Gather reads what is left of r into a Run. It stops at 2 GiB of lines.
func Gather(r *Reader) (*Run, error) { return gather(r, gatherLimit) }

func gather(r *Reader, limit int64) (*Run, error) {
	run := &Run{Meta: r.Meta()}
	for {
		entry, err := r.Next()
		if limit -= int64(len(entry.Data)) + lineExtra; err == nil && limit < 0 {
			err = r.damage("the record is too long to be judged at once")
		}
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
	v, err := e.Value()
	if err != nil {
		return err
	}
	switch v := v.(type) {
	case Op:
		run.Ops = append(run.Ops, Timed[Op]{e.At, v})
	case Probe:
		list := &run.Probes
		switch {
		case v.User != "":
			list = &run.UserProbes
		case v.Client != "":
			list = &run.ClientProbes
		}
		*list = append(*list, Timed[Probe]{e.At, v})
	case Endpoints:
		run.Endpoints = append(run.Endpoints, Timed[Endpoints]{e.At, v})
	case Lease:
		run.Leases = append(run.Leases, Timed[Lease]{e.At, v})
	case EtcdStatus:
		run.Etcd = append(run.Etcd, Timed[EtcdStatus]{e.At, v})
	case ProcessState:
		run.Processes = append(run.Processes, Timed[ProcessState]{e.At, v})
	case Fault:
		run.Faults = append(run.Faults, Timed[Fault]{e.At, v})
	case Steady:
		run.Steadies = append(run.Steadies, Timed[Steady]{e.At, v})
	case Phase:
		run.Phases = append(run.Phases, Timed[Phase]{e.At, v})
	case Harness:
		run.Harness = append(run.Harness, Timed[Harness]{e.At, v})
	case List:
		run.Lists = append(run.Lists, Timed[List]{e.At, v})
	case Watch:
		run.Watches = append(run.Watches, Timed[Watch]{e.At, v})
	case Event:
		run.Events = append(run.Events, Timed[Event]{e.At, v})
	case Action:
		if v.Verb == "" || v.Verb == "get" {
			run.Asked = append(run.Asked, Timed[Action]{e.At, v})
			return nil
		}
		run.Actions = append(run.Actions, Timed[Action]{e.At, v})
	case Backend:
		run.Backends = append(run.Backends, Timed[Backend]{e.At, v})
	case NodeChange:
		if v.Action != "" {
			run.Changes = append(run.Changes, Timed[NodeChange]{e.At, v})
			return nil
		}
		run.Nodes = append(run.Nodes, Timed[NodeChange]{e.At, v})
	case Step:
		run.Steps = append(run.Steps, Timed[Step]{e.At, v})
	case Object:
		if !v.hasState() {
			return fmt.Errorf("the %s %q has no state", v.Kind, v.Name)
		}
		run.Objects = append(run.Objects, Timed[Object]{e.At, v})
	case Session:
		run.Sessions = append(run.Sessions, Timed[Session]{e.At, v})
	case End:
		run.End = v
	}
	return nil
}
