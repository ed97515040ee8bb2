package framework

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// Callers find the abilities below by type assertion. Each one that changes the world takes a
// time to live. When it runs out, the provider undoes the change on the node's side, even if the
// harness is gone.
//
// What an ability does to processes does not survive a loss of power: while the power is off, the
// calls that undo it do nothing.
//
// Those on a component belong to its Node, or to the Cluster if the component is not on a
// control-plane node (LoadBalancer, Kwok).

// ErrNothingDone marks, in the sense of errors.Is, the error of an ability that changed nothing:
// the request does not fit the state that it finds, such as killing a component that is already
// held down. Then there is nothing to undo, and the state that it found belongs to another
// caller.
var ErrNothingDone = errors.New("nothing was done")

// Untouched is the error of a call that changed nothing. It wraps Err and is ErrNothingDone as
// well.
type Untouched struct{ Err error }

func (e Untouched) Error() string { return e.Err.Error() }

// Unwrap returns the reason.
func (e Untouched) Unwrap() error { return e.Err }

// Is reports whether target is ErrNothingDone.
func (e Untouched) Is(target error) bool { return target == ErrNothingDone }

// Killer is the ability of a node to kill a component without notice.
type Killer interface {
	// Kill sends SIGKILL. The node's process watcher leaves the component down until Start or
	// until hold has passed; with hold 0 the watcher restarts it as usual.
	Kill(ctx context.Context, c Component, hold time.Duration) error
}

// Stopper is the ability of a node to stop a component gracefully.
type Stopper interface {
	// Stop sends SIGTERM, then SIGKILL after the provider's grace period, and returns when the
	// process has exited. As with Kill, the watcher leaves the component down for hold, counted
	// from the exit.
	Stop(ctx context.Context, c Component, hold time.Duration) error
}

// Starter is the ability of a node to start a component that is held down.
type Starter interface {
	// Start ends a hold and starts the component; it does nothing if the component is running.
	Start(ctx context.Context, c Component) error
}

// Freezer is the ability of a node to suspend a component.
type Freezer interface {
	// Freeze sends SIGSTOP, and SIGCONT after ttl. It refuses a component that is already frozen.
	Freeze(ctx context.Context, c Component, ttl time.Duration) error
	// Thaw sends SIGCONT; it does nothing if the component is not frozen.
	Thaw(ctx context.Context, c Component) error
}

// PowerSwitch is the ability of a node to lose power.
type PowerSwitch interface {
	// PowerOff pulls the plug: peers get neither FIN nor RST. Power comes
	// back after ttl.
	PowerOff(ctx context.Context, ttl time.Duration) error
	// PowerOn starts the machine with the disk it had; it does nothing if the machine is on.
	PowerOn(ctx context.Context) error
	// Powered reports whether the machine is on.
	Powered(ctx context.Context) (bool, error)
}

// PoweredOff reports whether a node is known to be off.
func PoweredOff(ctx context.Context, node any) bool {
	power, ok := node.(PowerSwitch)
	if !ok {
		return false
	}
	on, err := power.Powered(ctx)
	return err == nil && !on
}

// PowerChecker is the ability of a cluster to report in advance what PowerOff would refuse.
type PowerChecker interface {
	// CheckPowerOff returns why the power of these nodes cannot be cut at the same time; nil if it
	// can.
	CheckPowerOff(nodes []string) error
}

// BootReporter is the ability of a node to report when its machine last started after a loss of
// power. What precedes that, such as its firmware, is not part of the control plane.
type BootReporter interface {
	// Booted returns when the machine's first process started, or a little later; zero if that is
	// not known.
	Booted() time.Time
}

// Pauser is the ability of a node to freeze as a whole.
type Pauser interface {
	// Pause suspends everything on the node, including its process watcher and its agent, and
	// resumes it after ttl. Connections stay open but are not answered. It refuses a node that is
	// already paused or has no power.
	Pause(ctx context.Context, ttl time.Duration) error
	// Resume resumes the node; it does nothing if the node is not paused.
	Resume(ctx context.Context) error
	// Paused reports whether the node is paused.
	Paused(ctx context.Context) (bool, error)
}

// Zoner is the ability of a node to report its fault domain.
type Zoner interface {
	// Zone returns the name of the node's fault domain.
	Zone() string
}

// HostNamer is the ability of a node to report its machine's hostname, which may differ from the
// node's name. Elected components name themselves after it.
type HostNamer interface {
	// HostName returns the hostname; empty if it is not known.
	HostName() string
}

// HolderNode returns the node of a lease's holder, by its identity: elected components use
// "<host name>_<UUID>". The host name may differ from the node's name, for example if one of them
// is fully qualified. If no node fits, or several do, the host name is returned.
func HolderNode(identity string, nodes []Node) string {
	host := identity
	if i := strings.LastIndexByte(identity, '_'); i >= 0 {
		host = identity[:i]
	}
	for _, is := range []func(Node) bool{
		func(n Node) bool { return n.Name() == host },
		func(n Node) bool {
			named, ok := n.(HostNamer)
			return ok && named.HostName() == host
		},
		func(n Node) bool {
			return strings.HasPrefix(n.Name(), host+".") || strings.HasPrefix(host, n.Name()+".")
		},
	} {
		var found []string
		for _, n := range nodes {
			if is(n) {
				found = append(found, n.Name())
			}
		}
		if len(found) == 1 && host != "" {
			return found[0]
		}
	}
	return host
}

// ProgramVersioner is the ability of a node to ask the running program of a component for its
// version, for components that serve nothing to others.
type ProgramVersioner interface {
	// ProgramVersion returns the version, such as v1.37.1.
	ProgramVersion(ctx context.Context, c Component) (string, error)
}

// Grouper is a Node that may run several components in one process.
type Grouper interface {
	// Group returns the components that are one process with c, c among them; nil if c is a
	// process of its own.
	Group(c Component) []Component
}

// Distributed is the ability of a node to report the distribution profile by which its components
// were found, on a cluster that holdfast did not create.
type Distributed interface {
	Distribution() Distribution
}

// Distribution identifies a distribution profile.
type Distribution struct {
	Name string // such as kubeadm
	// Digest is the SHA-256 digest of the profile's file.
	Digest string
}

// CrashLooper is the ability of a node to make a component fail repeatedly. Like Killer, it
// belongs to the Cluster for components that are not on a node.
type CrashLooper interface {
	// CrashLoop sends SIGKILL now, and again each time after has passed since the process watcher
	// restarted the component, until ttl has passed. A component has at most one crash loop: see
	// Process.CrashLooped.
	CrashLoop(ctx context.Context, c Component, after, ttl time.Duration) error
	// EndCrashLoop stops the crash loop and starts the component without further delay; it does
	// nothing if there is no crash loop.
	EndCrashLoop(ctx context.Context, c Component) error
}

// Limiter is the ability of a node to have its kernel limit the resources of its processes, for
// example with a cgroup.
type Limiter interface {
	// LimitSupport returns why the kernel cannot enforce l here; nil if it can.
	LimitSupport(l Limit) error
	// Limit puts components, or all processes of the node if none is named, under l until Unlimit
	// or until ttl has passed, and returns a handle. A component that starts in that time is
	// limited too. If several limits apply, the strictest counts.
	Limit(ctx context.Context, components []Component, l Limit, ttl time.Duration) (handle string, err error)
	// Unlimit removes a limit; it does nothing if the limit is gone.
	Unlimit(ctx context.Context, handle string) error
	// ReadLimit reports how the kernel enforces a limit.
	ReadLimit(ctx context.Context, handle string) (LimitReading, error)
}

// Limit is the most that processes may use, all together. One of CPU and Memory is set.
type Limit struct {
	// CPU is the CPU time, in percent of one CPU.
	CPU float64 `json:"cpu,omitempty"`
	// Memory is the memory that they may allocate from then on, in bytes, including the page
	// cache of what they read and write. What they held before counts only for processes that
	// start later. Beyond it the kernel slows them down or, if Hard is set, kills one.
	Memory int64 `json:"memory,omitempty"`
	Hard   bool  `json:"hard,omitempty"`
}

// LimitReading is what the kernel reports about a limit.
type LimitReading struct {
	// Active reports that the limit was neither removed nor has run out.
	Active bool `json:"active"`
	// Left names what is left of limits that are no longer active.
	Left []string `json:"left,omitempty"`
	// Group is where the kernel keeps the limit. Inside is how many of the processes to be
	// limited are in it; Outside are the PIDs, as the provider numbers them, of those that are
	// not.
	Group   string `json:"group,omitempty"`
	Inside  int    `json:"inside,omitempty"`
	Outside []int  `json:"outside,omitempty"`

	// CPU is the CPU time that the kernel grants, in percent of one CPU. Of the
	// Periods in which the processes ran, Throttled is how many were throttled, and ThrottledFor
	// for how long.
	CPU          float64       `json:"cpu,omitempty"`
	Periods      uint64        `json:"periods,omitempty"`
	Throttled    uint64        `json:"throttled,omitempty"`
	ThrottledFor time.Duration `json:"throttledFor,omitempty"`

	// Memory is the limit in bytes, MemoryUsed what counts towards it now, MemoryHits how often
	// it was hit, and OOMKills how many processes the kernel killed for it.
	Memory     int64  `json:"memory,omitempty"`
	MemoryUsed int64  `json:"memoryUsed,omitempty"`
	MemoryHits uint64 `json:"memoryHits,omitempty"`
	OOMKills   uint64 `json:"oomKills,omitempty"`
}

// Presser is the ability of a node to run short of CPU time or memory.
type Presser interface {
	// Press starts a process on the node that uses what p says until Relieve or until ttl has
	// passed, and returns a handle. Several add up.
	Press(ctx context.Context, p Pressure, ttl time.Duration) (handle string, err error)
	// Relieve stops a load process; it does nothing if the process is gone.
	Relieve(ctx context.Context, handle string) error
	// Load reports what a load process has used so far, as the kernel counts it; its PID is 0 if
	// the process does not exist.
	Load(ctx context.Context, handle string) (Load, error)
}

// HostPresser is the ability of a cluster to do the same on hosts that are not control-plane
// nodes.
type HostPresser interface {
	// PresserOf returns the ability of a host: BalancerHost or WorkersHost.
	PresserOf(host string) (Presser, error)
}

// Pressure is what a load process uses.
type Pressure struct {
	// Loops is the number of busy loops, each of which would keep one CPU busy.
	// EveryProcessor means one for each CPU.
	Loops int `json:"loops,omitempty"`
	// Memory is the number of bytes that it keeps resident.
	Memory int64 `json:"memory,omitempty"`
	// Within is the handle of a limit that applies to the process too; see Limiter. Empty for
	// none.
	Within string `json:"within,omitempty"`
}

// EveryProcessor is one busy loop for each of the node's CPUs.
const EveryProcessor = -1

// Load is what a load process uses.
type Load struct {
	// PID and StartTicks name the process, as those of Process do.
	PID        int    `json:"pid"`
	StartTicks uint64 `json:"startTicks,omitempty"`
	// CPUTime is the CPU time that it has consumed.
	CPUTime time.Duration `json:"cpuTime"`
	// Anonymous is how many bytes of memory that no file backs are resident.
	Anonymous int64 `json:"anonymous"`
	// OOMScoreAdj says how likely the kernel is to kill it when memory runs out: 1000 is before
	// all others.
	OOMScoreAdj int `json:"oomScoreAdj"`
}

// ClockShifter is the ability of a node to move the wall clock of its components. Their monotonic
// clocks are not affected.
type ClockShifter interface {
	// ClockSupport returns nil if clocks can be moved, and otherwise why not. The reason may be
	// the machine rather than the provider.
	ClockSupport() error
	// ShiftClock moves the clocks of components, whether they run now or start later, until
	// UnshiftClock or until ttl has passed, and returns a handle. Shifts of one component add up.
	// None survives a loss of power.
	ShiftClock(ctx context.Context, components []Component, s ClockShift, ttl time.Duration) (handle string, err error)
	// UnshiftClock removes a shift; it does nothing if the shift is gone.
	UnshiftClock(ctx context.Context, handle string) error
	// ReadClock reports how the clock of a running component is shifted now, read from the memory
	// of its process.
	ReadClock(ctx context.Context, c Component) (ClockReading, error)
}

// ClockShift is how a clock is moved.
type ClockShift struct {
	// Offset is added immediately.
	Offset time.Duration `json:"offset,omitempty"`
	// Drift is what the clock gains from then on, in seconds per second; 0.001 is 1000 ppm, and a
	// negative drift loses time.
	Drift float64 `json:"drift,omitempty"`
}

// ClockReading is how a component's clock is shifted.
type ClockReading struct {
	// Offset is how far it is from the machine's clock now.
	Offset time.Duration `json:"offset"`
	// Drift is what it gains, in seconds per second.
	Drift float64 `json:"drift"`
	// Shifts are the handles of the shifts that are active for the component.
	Shifts []string `json:"shifts"`
	// Untouched reports that its code for reading clocks is the kernel's own.
	Untouched bool `json:"untouched"`
}

// CertificateFaulter is the ability of a node to serve with certificates that clients must
// reject.
type CertificateFaulter interface {
	// SpoilCertificates replaces the certificates that a component serves with by defective ones,
	// until RestoreCertificates or until ttl has passed, even across a loss of power. The
	// component reloads them automatically; open connections stay. It refuses a component whose
	// certificates are already spoilt.
	SpoilCertificates(ctx context.Context, c Component, d CertificateDefect, ttl time.Duration) error
	// RestoreCertificates puts the component's own certificates back; it does nothing if they are
	// in place.
	RestoreCertificates(ctx context.Context, c Component) error
}

// CertificateDefect is what is wrong with a certificate. In everything else it is like the one
// that it replaces.
type CertificateDefect string

const (
	// CertificateExpired is a certificate that has expired.
	CertificateExpired CertificateDefect = "expired"
	// CertificateWrongNames is a certificate that names neither the node, nor the balancer, nor
	// any of their addresses.
	CertificateWrongNames CertificateDefect = "wrong-names"
	// CertificateNoBalancerName is a certificate without the balancer's name but with its
	// address: only clients that connect by name must reject it.
	CertificateNoBalancerName CertificateDefect = "no-balancer-name"
	// CertificateUntrusted is a certificate from a new CA that no client trusts.
	CertificateUntrusted CertificateDefect = "untrusted"
)

// Promiser is the ability of a cluster to undo, on its own side, a fault that did not go through
// one of its nodes: one that is injected through etcd or the API. It does so even if the process
// that injected the fault was killed.
type Promiser interface {
	// Promise has the cluster's nodes carry out u when ttl has passed, unless Withdraw is called
	// first, and returns a handle. Call it before the fault starts.
	Promise(ctx context.Context, u Undoing, ttl time.Duration) (handle string, err error)
	// CheckPromise returns why the cluster would not promise u, whatever its data; nil if it
	// would.
	CheckPromise(u Undoing) error
	// Withdraw withdraws a promise; it does nothing if no promise has that handle.
	Withdraw(ctx context.Context, handle string) error
}

// Undoing is what undoes a fault on the cluster's side, with etcd and the abilities of nodes alone
// (package undo). It can be repeated, by several nodes at the same time.
type Undoing struct {
	// Fault is the name of the fault.
	Fault string `json:"fault"`
	// Node is the only node that can do it; empty for any.
	Node string `json:"node,omitempty"`
	// Lossy reports that data are lost permanently, even after the undo.
	Lossy bool `json:"lossy,omitempty"`
	// Quorum reports that etcd may be without a quorum until then.
	Quorum bool `json:"-"`
	// Nothing reports that the fault needs no undo: it changes no data.
	Nothing bool `json:"-"`

	// What is to be done: one of these is set.

	// Disarm is an alarm of etcd to remove.
	Disarm *EtcdAlarm `json:"disarm,omitempty"`
	// FreeSpace is a prefix of keys to delete from etcd, with their space and the alarm NOSPACE.
	FreeSpace string `json:"freeSpace,omitempty"`
	// Delete are keys to delete from etcd.
	Delete []string `json:"delete,omitempty"`
	// Release is a lease to leave without its holder.
	Release *HeldLease `json:"release,omitempty"`
	// Rejoin are the peer URLs of the member on Node, to add again without data.
	Rejoin []string `json:"rejoin,omitempty"`
	// Restart are processes to kill if they still run, by component and node
	// ("kube-scheduler/node-1"), as Process.ID returns them.
	Restart map[string]string `json:"restart,omitzero"`
}

// Check returns an error unless u says what is to be done, once.
func (u Undoing) Check() error {
	set := 0
	for _, is := range []bool{u.Disarm != nil, u.FreeSpace != "", len(u.Delete) > 0, u.Release != nil, len(u.Rejoin) > 0, u.Restart != nil} {
		if is {
			set++
		}
	}
	if set != 1 {
		return fmt.Errorf("the undo of %s must set exactly one action, but sets %d", u.Fault, set)
	}
	return nil
}

// EtcdAlarm is an alarm that a member has raised.
type EtcdAlarm struct {
	Member uint64 `json:"member"`
	Type   string `json:"type"` // such as NOSPACE
}

// HeldLease is a Lease and who holds it.
type HeldLease struct {
	Key    string `json:"key"` // in etcd
	Holder string `json:"holder"`
}

// Lapser is the ability of a cluster to heal faults early when the harness is silent, or another one
// takes over, and to report it.
type Lapser interface {
	// Lapsed returns the node on which faults that started at since or later were healed that
	// way; empty if there are none.
	Lapsed(ctx context.Context, since time.Time) string
}

// Mortal is the ability of a cluster to die with the process that made it, however that process
// exits: the kernel takes care of it. Faults of that process end with it.
type Mortal interface {
	// EndsWithProcess does nothing.
	EndsWithProcess()
}

// Explainer is the ability of a cluster, or of one of its nodes, to say why it lacks another ability.
type Explainer interface {
	// WhyNot returns why it lacks the ability of that name, such as Pauser; empty if there is no
	// other reason than the provider.
	WhyNot(ability string) string
}
