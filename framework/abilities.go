package framework

import (
	"context"
	"encoding/json"
	"errors"
	"time"
)

// The abilities below are found by assertion. Each one that changes the world
// takes a time to live: the provider undoes the change on the node's side when
// it runs out, whether or not the harness is still there.
//
// What is done to processes does not survive a loss of power: what would end it
// does nothing while the power is off.
//
// Those on a component belong to its Node, and to the Cluster for components
// that are on no control-plane node (LoadBalancer, Kwok).

// ErrNothingDone is what the error of an ability is, in the sense of errors.Is,
// that has changed nothing: what is asked for does not fit the state that it
// finds, such as the kill of what is held down already. Then there is nothing
// to undo, and what is there belongs to somebody else.
var ErrNothingDone = errors.New("nothing was done")

// Untouched is an error of a call that has changed nothing: Err, which is ErrNothingDone as
// well.
type Untouched struct{ Err error }

func (e Untouched) Error() string { return e.Err.Error() }

// Unwrap returns the reason.
func (e Untouched) Unwrap() error { return e.Err }

// Is reports whether target is ErrNothingDone.
func (e Untouched) Is(target error) bool { return target == ErrNothingDone }

// Killer is the ability of a node to end a component without notice.
type Killer interface {
	// Kill sends SIGKILL. The node's process watcher leaves the component
	// down until Start or until hold has passed; hold 0 means that it
	// restarts it as it always does.
	Kill(ctx context.Context, c Component, hold time.Duration) error
}

// Stopper is the ability of a node to end a component gracefully.
type Stopper interface {
	// Stop sends SIGTERM, and SIGKILL after the provider's grace period, and
	// returns when the process has ended. As for Kill, the watcher leaves the
	// component down for hold, which counts from that end.
	Stop(ctx context.Context, c Component, hold time.Duration) error
}

// Starter is the ability of a node to start a component that is held down.
type Starter interface {
	// Start ends a hold and starts the component; it does nothing where the
	// component runs.
	Start(ctx context.Context, c Component) error
}

// Freezer is the ability of a node to suspend a component.
type Freezer interface {
	// Freeze sends SIGSTOP, and SIGCONT after ttl. It refuses a component that
	// is frozen already.
	Freeze(ctx context.Context, c Component, ttl time.Duration) error
	// Thaw sends SIGCONT; it does nothing where the component is not frozen.
	Thaw(ctx context.Context, c Component) error
}

// PowerSwitch is the ability of a node to lose power.
type PowerSwitch interface {
	// PowerOff pulls the plug: peers get neither FIN nor RST. Power comes
	// back after ttl.
	PowerOff(ctx context.Context, ttl time.Duration) error
	// PowerOn starts the machine with the disk it had; it does nothing where
	// the machine is on.
	PowerOn(ctx context.Context) error
	// Powered reports whether the machine is on.
	Powered(ctx context.Context) (bool, error)
}

// Pauser is the ability of a node to stand still as a whole.
type Pauser interface {
	// Pause suspends everything on the node, its process watcher and its agent
	// included, and has it continue after ttl. Connections stay, and they get no answers
	// on them. It refuses a node that is paused already, or has no power.
	Pause(ctx context.Context, ttl time.Duration) error
	// Resume has the node continue; it does nothing where it is not paused.
	Resume(ctx context.Context) error
	// Paused reports whether the node stands still.
	Paused(ctx context.Context) (bool, error)
}

// Zoner is the ability of a node to tell its fault domain.
type Zoner interface {
	// Zone returns the name of the node's fault domain.
	Zone() string
}

// HostNamer is the ability of a node to say what its machine calls itself, which may be another
// name than the node's. Elected components name themselves after it.
type HostNamer interface {
	// HostName returns that name; empty if it is not known.
	HostName() string
}

// Grouper is a Node that may run several components in one process.
type Grouper interface {
	// Group returns the components that are one process with c, c among them; nil if c is a
	// process of its own.
	Group(c Component) []Component
}

// CrashLooper is the ability of a node to make a component fail again and
// again. Like Killer, it belongs to the Cluster for what is on no node.
type CrashLooper interface {
	// CrashLoop sends SIGKILL now, and again when after has passed since each
	// start that the process watcher makes, until ttl has passed. A component
	// has one crash loop at most: see Process.CrashLooped.
	CrashLoop(ctx context.Context, c Component, after, ttl time.Duration) error
	// EndCrashLoop ends it and starts the component without further delay;
	// it does nothing without a crash loop.
	EndCrashLoop(ctx context.Context, c Component) error
}

// Limiter is the ability of a node to have its kernel limit what its processes get,
// such as by a control group.
type Limiter interface {
	// LimitSupport says why the kernel cannot keep a limit here; nil where it
	// can.
	LimitSupport(l Limit) error
	// Limit puts components, or with none named all processes of the node,
	// under l until Unlimit or until ttl has passed, and returns a handle for it.
	// A component that starts meanwhile is under it too. Of several limits the
	// strictest counts.
	Limit(ctx context.Context, components []Component, l Limit, ttl time.Duration) (handle string, err error)
	// Unlimit ends a limit; it does nothing where it is gone.
	Unlimit(ctx context.Context, handle string) error
	// ReadLimit reports what the kernel makes of a limit.
	ReadLimit(ctx context.Context, handle string) (LimitReading, error)
}

// Limit is what processes get at most, all together. One of CPU and Memory is set.
type Limit struct {
	// CPU is the processor time, in percent of one processor.
	CPU float64 `json:"cpu,omitempty"`
	// Memory is the memory that they may take from then on, in bytes, the page
	// cache of what they read and write included. What they had before counts
	// only for processes that start later. Beyond it the kernel slows them down
	// or, where it is Hard, ends one.
	Memory int64 `json:"memory,omitempty"`
	Hard   bool  `json:"hard,omitempty"`
}

// LimitReading is what the kernel says about a limit.
type LimitReading struct {
	// Active says that the limit has neither been ended nor has run out.
	Active bool `json:"active"`
	// Left names what is there of limits that are active no more.
	Left []string `json:"left,omitempty"`
	// Group is where the kernel keeps the limit. Inside are how many of the
	// processes that are to be under it are; Outside are the others, as the
	// provider numbers them.
	Group   string `json:"group,omitempty"`
	Inside  int    `json:"inside,omitempty"`
	Outside []int  `json:"outside,omitempty"`

	// CPU is the processor time that the kernel grants, in percent of one
	// processor. Of that many Periods in which the processes ran, they were
	// Throttled in some, for ThrottledFor.
	CPU          float64       `json:"cpu,omitempty"`
	Periods      uint64        `json:"periods,omitempty"`
	Throttled    uint64        `json:"throttled,omitempty"`
	ThrottledFor time.Duration `json:"throttledFor,omitempty"`

	// Memory is the limit in bytes, MemoryUsed what counts towards it now,
	// MemoryHits how often it was hit, and OOMKills how many processes the
	// kernel has ended for it.
	Memory     int64  `json:"memory,omitempty"`
	MemoryUsed int64  `json:"memoryUsed,omitempty"`
	MemoryHits uint64 `json:"memoryHits,omitempty"`
	OOMKills   uint64 `json:"oomKills,omitempty"`
}

// Presser is the ability of a node to run short of processor time or memory.
type Presser interface {
	// Press starts a process on the node that takes what p says until it is
	// relieved or until ttl has passed, and returns a handle for it. Several
	// add up.
	Press(ctx context.Context, p Pressure, ttl time.Duration) (handle string, err error)
	// Relieve ends a load process; it does nothing where it is gone.
	Relieve(ctx context.Context, handle string) error
	// Load reports what a load process has taken so far, as the kernel counts
	// it; its PID is 0 if the process does not exist.
	Load(ctx context.Context, handle string) (Load, error)
}

// HostPresser is the ability of a cluster to do the same to hosts that are no
// control-plane nodes.
type HostPresser interface {
	// PresserOf returns the ability of a host: BalancerHost or WorkersHost.
	PresserOf(host string) (Presser, error)
}

// Pressure is what a load process takes.
type Pressure struct {
	// Loops is the number of busy loops, each of which would keep one
	// processor busy. EveryProcessor stands for as many as there are.
	Loops int `json:"loops,omitempty"`
	// Memory is the number of bytes that it keeps resident.
	Memory int64 `json:"memory,omitempty"`
	// Within is the handle of a limit that the process is to be under, as
	// those are that it was put on; see Limiter. Empty for none.
	Within string `json:"within,omitempty"`
}

// EveryProcessor is one busy loop for each of the node's processors.
const EveryProcessor = -1

// Load is what a load process takes.
type Load struct {
	// PID and StartTicks name the process, as those of Process do.
	PID        int    `json:"pid"`
	StartTicks uint64 `json:"startTicks,omitempty"`
	// CPUTime is the processor time that it has consumed.
	CPUTime time.Duration `json:"cpuTime"`
	// Anonymous is how many bytes of memory that no file backs are resident.
	Anonymous int64 `json:"anonymous"`
	// OOMScoreAdj says how gladly the kernel ends it when memory runs out:
	// 1000 is before all others.
	OOMScoreAdj int `json:"oomScoreAdj"`
}

// ClockShifter is the ability of a node to move the wall clock of its
// components. Their monotonic clocks continue as they were.
type ClockShifter interface {
	// ClockSupport returns nil where clocks can be moved, and otherwise why
	// not: it can be for reasons of the machine rather than of the provider.
	ClockSupport() error
	// ShiftClock moves the clocks of components, whether they run now or
	// start later, until UnshiftClock or until ttl has passed, and returns a
	// handle for it. Shifts of one component add up. None survives a loss of
	// power.
	ShiftClock(ctx context.Context, components []Component, s ClockShift, ttl time.Duration) (handle string, err error)
	// UnshiftClock takes a shift back; it does nothing where it is gone.
	UnshiftClock(ctx context.Context, handle string) error
	// ReadClock reports how the clock of a component that runs is moved now,
	// from the memory of its process.
	ReadClock(ctx context.Context, c Component) (ClockReading, error)
}

// ClockShift is how a clock is moved.
type ClockShift struct {
	// Offset is added at once.
	Offset time.Duration `json:"offset,omitempty"`
	// Drift is what the clock gains from then on, in seconds each second;
	// 0.001 is 1000 ppm, and a negative one loses.
	Drift float64 `json:"drift,omitempty"`
}

// ClockReading is how a component's clock is moved.
type ClockReading struct {
	// Offset is how far it is from the machine's clock now.
	Offset time.Duration `json:"offset"`
	// Drift is what it gains, in seconds each second.
	Drift float64 `json:"drift"`
	// Shifts are the handles of what is active for the component.
	Shifts []string `json:"shifts"`
	// Untouched says that its code for reading clocks is the kernel's own.
	Untouched bool `json:"untouched"`
}

// CertificateFaulter is the ability of a node to serve with certificates that
// clients must refuse.
type CertificateFaulter interface {
	// SpoilCertificates puts defective certificates in place of those that a
	// component serves with, until RestoreCertificates or until ttl has
	// passed, also across a loss of power. The component takes them up by
	// itself; connections that are open stay. It refuses a component whose
	// certificates are spoilt already.
	SpoilCertificates(ctx context.Context, c Component, d CertificateDefect, ttl time.Duration) error
	// RestoreCertificates puts the component's own certificates back; it does
	// nothing where they are in place.
	RestoreCertificates(ctx context.Context, c Component) error
}

// CertificateDefect is what is wrong with a certificate. In everything else it
// is like the one whose place it takes.
type CertificateDefect string

const (
	// CertificateExpired is one whose time has passed.
	CertificateExpired CertificateDefect = "expired"
	// CertificateWrongNames is one that names neither the node, nor the
	// balancer, nor any of their addresses.
	CertificateWrongNames CertificateDefect = "wrong-names"
	// CertificateNoBalancerName is one that does not carry the balancer's name. It
	// carries its address: only clients that come by the name must refuse it.
	CertificateNoBalancerName CertificateDefect = "no-balancer-name"
	// CertificateUntrusted is one of a new CA that no client trusts.
	CertificateUntrusted CertificateDefect = "untrusted"
)

// Promiser is the ability of a cluster to undo, on its own side, a fault that none of its
// nodes was asked for: one that is done through etcd or the API. It does so even if the
// process that injected the fault was killed.
type Promiser interface {
	// Promise has the cluster's nodes carry out u when ttl has passed, unless Withdraw
	// comes before, and returns a handle. It is called before the fault begins.
	Promise(ctx context.Context, u Undoing, ttl time.Duration) (handle string, err error)
	// CheckPromise returns why the cluster would not promise it, whatever its data; nil
	// where it would.
	CheckPromise(u Undoing) error
	// Withdraw withdraws a promise; it does nothing if no promise has that handle.
	Withdraw(ctx context.Context, handle string) error
}

// Undoing is what undoes a fault. It can be repeated, by several nodes at once.
type Undoing struct {
	// Fault is the name of the fault, which carries it out (fault.Undo) with Data.
	Fault string          `json:"fault"`
	Data  json.RawMessage `json:"data"`
	// Node is the one node that can do it; empty for any.
	Node string `json:"node,omitempty"`
	// Lossy reports that data are lost permanently, whatever is undone.
	Lossy bool `json:"lossy,omitempty"`
}

// Lapser is the ability of a cluster to heal faults early when the harness is silent, and to
// report it.
type Lapser interface {
	// Lapsed says on which node faults that began at a time or later were healed that way;
	// empty if none were.
	Lapsed(ctx context.Context, since time.Time) string
}

// Mortal is the ability of a cluster to end with the process that made it, however that
// ends: the kernel sees to it. Faults of that process end with it.
type Mortal interface {
	// EndsWithProcess does nothing.
	EndsWithProcess()
}
