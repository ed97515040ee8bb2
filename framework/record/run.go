package record

import (
	"errors"
	"fmt"
	"io"
	"iter"
)

// Timed is an observation with the time at which it was appended.
type Timed[T any] struct {
	At Nanos
	V  T
}

// Each returns the observations of a list, each with the time at which it was appended.
func Each[T any](list []Timed[T]) iter.Seq2[Nanos, T] {
	return func(yield func(Nanos, T) bool) {
		for _, t := range list {
			if !yield(t.At, t.V) {
				return
			}
		}
	}
}

// Run is a record gathered by kind; each list is in the record's order.
type Run struct {
	Meta   Meta
	Ops    []Timed[Op]
	Probes []Timed[Probe] // of HTTP/1.1
	// ClientProbes are the probes of clients like those of client-go users.
	ClientProbes []Timed[Probe]
	// UserProbes are the probes of an account whose permissions come from a role.
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
	// Nodes are the changes of the set of nodes, Changes all others.
	Nodes    []Timed[NodeChange]
	Changes  []Timed[NodeChange]
	Steps    []Timed[Step]
	Objects  []Timed[Object]
	Sessions []Timed[Session]
	// Complete reports whether the record ends with an end entry and is
	// undamaged up to there.
	Complete bool
	// End is the end entry of a complete record.
	End End
	// EndAt is the time of the last entry that could be read.
	EndAt Nanos
	// Problem says at which line an incomplete record breaks off, and why. Everything gathered
	// comes from the lines before it.
	Problem string
}

// Read reads the record in dir. A truncated or damaged record is returned as far as it can be
// trusted, which of a packed one is only its metadata, with Complete false and Problem set; an error means that none of it is usable.
func Read(dir string) (*Run, error) {
	r, err := Open(dir)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return Gather(r)
}

// gatherLimit is how many bytes of lines Gather reads; a busy hour has about a fifth of it. A few
// compressed bytes can expand to any number of lines.
const gatherLimit = 2 << 30

// Gather reads the rest of r into a Run. It stops at 2 GiB of lines.
func Gather(r *Reader) (*Run, error) { return gather(r, gatherLimit) }

func gather(r *Reader, limit int64) (*Run, error) {
	run := &Run{Meta: r.Meta()}
	for {
		entry, err := r.Next()
		if limit -= int64(len(entry.Data)) + lineExtra; err == nil && limit < 0 {
			err = r.damage("the record is too long to be judged")
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
			if r.unproven {
				run = &Run{Meta: r.Meta()}
			}
			run.End = End{}
			run.Problem = fmt.Sprintf("line %d: %s", damage.Line, damage.Reason)
			return run, nil
		default:
			return nil, err
		}
	}
}

func (run *Run) add(e Entry) error {
	r := rowOf(e.Kind)
	if r == nil || r.gather == nil {
		return fmt.Errorf("entries of kind %q are not observations", e.Kind)
	}
	return r.gather(run, e)
}
