package ha

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/fault"
	"github.com/holdfast-ha/holdfast/framework/workload/client"
)

// Defaults of the fault's parameters.
const (
	defaultPause = 2 * time.Second
	defaultRun   = 2 * time.Second
)

// proofLimit is how long injection and healing wait for their proofs.
const proofLimit = 10 * time.Second

// Stutter pauses a component repeatedly, as a host does that has promised more
// CPUs than it has.
var Stutter = &fault.Fault{
	Name:    "stutter",
	Summary: "suspends a component repeatedly (SIGSTOP, SIGCONT)",
	Targets: []string{"component"},
	Params: []fault.Param{
		duration("pause", "how long it is suspended each time", defaultPause),
		duration("run", "how long it runs in between", defaultRun),
	},
	Needs:   []string{"Freezer", "ProcessReporter"},
	Example: "kcm/active pause=2s run=2s",
	Prepare: prepare,
}

// duration is a parameter of 10ms or more.
func duration(name, doc string, unset time.Duration) fault.Param {
	return fault.Param{Name: name, Doc: doc, Allowed: "a duration of 10ms or more", Default: unset.String(),
		Parse: func(value string) (any, bool) {
			if value == "" {
				return unset, true
			}
			d, err := time.ParseDuration(value)
			return d, err == nil && d >= 10*time.Millisecond
		}}
}

// machine is what the fault needs of a node.
type machine interface {
	framework.Freezer
	framework.ProcessReporter
}

// prepare touches nothing; what it returns injects the fault.
func prepare(r fault.Request) (fault.Inject, error) {
	nodes := r.Cluster.Nodes()
	i := slices.IndexFunc(nodes, func(n framework.Node) bool { return n.Name() == r.Target.Node })
	if i < 0 {
		return nil, fmt.Errorf("target %s: the cluster has no node %s", r.Target.Asked, r.Target.Node)
	}
	m, ok := nodes[i].(machine)
	if !ok {
		// Requirements that rest on the fault are not applicable to such a cluster.
		return nil, &fault.MissingAbility{Ability: "Freezer", Of: "node " + r.Target.Node, For: "fault stutter"}
	}
	s := &stuttering{target: r.Target, machine: m,
		pause: fault.Value[time.Duration](r, "pause"), run: fault.Value[time.Duration](r, "run")}
	return func(ctx context.Context) (fault.Injection, error) { return s.inject(ctx, r.TTL) }, nil
}

func (s *stuttering) inject(ctx context.Context, ttl time.Duration) (fault.Injection, error) {
	called := time.Now()
	if err := s.freeze(ctx); err != nil {
		return nil, fmt.Errorf("fault stutter: failed to pause %s: %w", s.target, err)
	}
	s.proof = fault.Prove(ctx, called, proofLimit, s.is(true))
	// The injection stays active when ctx ends, until it is healed or its time is over.
	ctx, s.cancel = context.WithTimeout(context.WithoutCancel(ctx), ttl)
	s.over = make(chan struct{})
	go s.loop(ctx)
	return s, nil
}

// stuttering is a stutter under way.
type stuttering struct {
	target     fault.Target
	machine    machine
	pause, run time.Duration
	proof      fault.Proof

	cancel context.CancelFunc
	over   chan struct{} // closed when the loop has ended
	pauses int           // the loop's; read when it is over

	mu     sync.Mutex
	healed fault.Proof // guarded by mu
}

// freeze pauses the component. The node lets it run again a little later than this process
// would: so it does even if this process is killed.
func (s *stuttering) freeze(ctx context.Context) error {
	err := s.machine.Freeze(ctx, s.target.Component, s.pause+time.Second)
	if err == nil {
		s.pauses++
	}
	return err
}

// loop begins when the component stands still. A component that is just being restarted misses
// a pause.
func (s *stuttering) loop(ctx context.Context) {
	defer close(s.over)
	for client.Pause(ctx, s.pause) {
		_ = s.machine.Thaw(ctx, s.target.Component) // or the node does
		if !client.Pause(ctx, s.run) {
			break
		}
		_ = s.freeze(ctx)
	}
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		_ = s.machine.Thaw(ctx, s.target.Component) // or the node does
	}
}

// is returns a look at the component's process: whether it is suspended, as is wanted.
func (s *stuttering) is(suspended bool) func(context.Context) (bool, string) {
	return func(ctx context.Context) (bool, string) {
		now, err := s.machine.Process(ctx, s.target.Component)
		switch {
		case err != nil:
			return false, fmt.Sprintf("failed to read the state of %s: %v", s.target, err)
		case now.PID == 0:
			return false, fmt.Sprintf("%s does not run", s.target)
		}
		return strings.HasPrefix(now.State, "T") == suspended, fmt.Sprintf("%s, process %d, is in state %s", s.target, now.PID, now.State)
	}
}

func (s *stuttering) Target() fault.Target { return s.target }

// Chosen implements fault.Chooser: the record has the defaults, too.
func (s *stuttering) Chosen() map[string]string {
	return map[string]string{"pause": s.pause.String(), "run": s.run.String()}
}

func (s *stuttering) Proof() fault.Proof { return s.proof }

// Heal implements fault.Injection.
func (s *stuttering) Heal(ctx context.Context) (fault.Proof, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.healed.Proven {
		return s.healed, nil
	}
	called := time.Now()
	s.cancel()
	<-s.over
	if err := s.machine.Thaw(ctx, s.target.Component); err != nil {
		return fault.Proof{Called: called, What: "healing was refused"}, fmt.Errorf("failed to heal stutter of %s: %w", s.target, err)
	}
	s.healed = fault.Prove(ctx, called, proofLimit, s.is(false))
	s.healed.What += fmt.Sprintf(", after %d pauses of %s", s.pauses, s.pause)
	return s.healed, nil
}
