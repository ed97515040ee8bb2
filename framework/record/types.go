package record

import (
	"encoding/json"
	"strings"
	"time"
)

// Version is the version of the record's format. A reader refuses others.
const Version = 3

// Nanos is a point on the harness's monotonic clock: nanoseconds since the
// start of the record.
type Nanos int64

// Entry is one line of a record.
type Entry struct {
	// At is when it was written, in nanoseconds from the start of the record.
	At   Nanos `json:"t"`
	Kind Kind  `json:"k"`
	// Data is what was seen, in the form of its kind; see docs/record.md.
	Data json.RawMessage `json:"d"`
}

// Meta says what the record is about. It holds everything that a judge needs apart from the
// observations.
type Meta struct {
	Version  int       `json:"version"`
	Run      string    `json:"run"`      // identifies the run
	Scenario string    `json:"scenario"` // name of the scenario
	Seed     uint64    `json:"seed"`
	Started  time.Time `json:"started"` // wall time of Nanos 0
	Harness  string    `json:"harness"` // version of holdfast
	Provider string    `json:"provider"`
	// Nodes are the control-plane nodes at the start and their addresses; see
	// NodeChange.
	Nodes []Node `json:"nodes"`
	// Entrances are the names of the entrances at the start, the balancer first.
	Entrances []string `json:"entrances"`
	// Versions are component versions by node.
	Versions map[string]map[string]string `json:"versions,omitempty"`
	// Settings are the durations for bounds, in nanoseconds, by the
	// catalogue's symbols (G, N, L, R, P, T, I, E, A, H, M).
	Settings map[string]time.Duration `json:"settings"`
	// Assumed are the symbols of the settings that could not be read from the cluster.
	Assumed []string `json:"assumed,omitempty"`
	// Origins say where the settings come from, by symbol: for example from which flag.
	Origins map[string]string `json:"origins,omitempty"`
	// Elections are the durations of each elected component's own election by symbol (L,
	// R, P), where they are known; Settings has the longest of each.
	Elections map[string]map[string]time.Duration `json:"elections,omitempty"`
	// RemoteEtcd is set if an API server uses etcd members on other nodes as well as the local
	// one.
	RemoteEtcd bool `json:"remote_etcd,omitempty"`
	// OutsideEtcd is the first URL at which API servers reach etcd that is not an address of a
	// control-plane node, such as a load balancer's; empty if they use the members on the nodes alone.
	OutsideEtcd string `json:"outside_etcd,omitempty"`
	// GoawayChance is the probability with which an API server asks the client of a request to
	// close its HTTP/2 connection (--goaway-chance); the lowest one if they differ.
	GoawayChance float64 `json:"goaway_chance,omitempty"`
	// NoAccess is what the provider gave the observers no access to.
	NoAccess []Access `json:"noAccess,omitempty"`
	// Checks are what the record is judged by.
	Checks []Check `json:"checks"`
}

// Access is something in a cluster that observers read if the provider gives access to it.
type Access string

const (
	AuditLogs   Access = "audit logs"   // of every API server
	EtcdMembers Access = "etcd members" // other than through API servers
	Processes   Access = "processes"    // of the components
)

// Node is a control-plane node of the cluster under test.
type Node struct {
	Name    string `json:"name"`
	Address string `json:"address"`
	// Zone is the node's fault domain, empty if it is not known.
	Zone       string   `json:"zone,omitempty"`
	Components []string `json:"components"`
	// Distribution is the profile by which the components were found on a node that holdfast did
	// not create; nil for others, for nodes that were not inspected, and in records from before
	// it was kept.
	Distribution *Distribution `json:"distribution,omitempty"`
}

// Distribution is a distribution profile: how a distribution runs its components.
type Distribution struct {
	Name string `json:"name"` // such as kubeadm
	// Digest is the SHA-256 digest of the profile's file.
	Digest string `json:"digest"`
}

// Check asks a judge for a verdict on one requirement.
type Check struct {
	// Requirement is an ID of the catalogue, such as HA-EP-003.
	Requirement string `json:"requirement"`
	// Level is MUST, SHOULD or INFO.
	Level string `json:"level"`
	// Judge names the judge, such as endpoint-removed.
	Judge string `json:"judge"`
	// Bound is a formula over the settings, such as "T + I + M"; empty if the guarantee has no
	// time limit.
	Bound string `json:"bound,omitempty"`
	// Fault names the injection (Fault.ID) that the check is about; empty if the scenario has
	// none.
	Fault string `json:"fault,omitempty"`
	// Params are further parameters of the judge.
	Params map[string]string `json:"params,omitempty"`
}

// Outcome says what a client knows of an operation.
type Outcome string

const (
	OK      Outcome = "ok"      // acknowledged
	Refused Outcome = "refused" // certainly without effect
	Unknown Outcome = "unknown" // may or may not have taken effect
)

// Refusal is what a refused write says about the state of its key.
type Refusal string

const (
	RefusedAbsent  Refusal = "absent"  // the key did not exist
	RefusedPresent Refusal = "present" // the key existed
	RefusedVersion Refusal = "version" // the key did not have the expected version
)

// OpType says what an operation does.
type OpType string

const (
	OpGet    OpType = "get"
	OpCreate OpType = "create"
	OpUpdate OpType = "update" // compare-and-swap on resourceVersion
	OpPatch  OpType = "patch"  // of an existing key, whatever its version
	OpDelete OpType = "delete" // compare-and-swap if it has an Expect
	OpPut    OpType = "put"    // etcd only: the key exists afterwards in any case
)

// OtherObject prefixes the value of a read whose successful response was not the object that was
// requested.
const OtherObject = "another object: "

// Op is one operation of a client, on one key.
type Op struct {
	Client   string `json:"client"`
	Entrance string `json:"entrance"` // entrance, or node for API "etcd"
	API      string `json:"api"`      // "kubernetes" or "etcd"
	Type     OpType `json:"type"`
	// Consistency is "quorum" (the default of get and list), "any"
	// (resourceVersion=0) or, for etcd, "linearizable" or "serializable".
	Consistency string `json:"consistency,omitempty"`
	Key         string `json:"key"`
	// Collection is the collection that the key belongs to; empty for keys that other clients
	// change too.
	Collection string `json:"collection,omitempty"`
	// Group is the group of the key after the write, or as it was read; see List.
	Group string `json:"group,omitempty"`
	// Transaction is common to the operations of one etcd transaction, which
	// took effect together or not at all.
	Transaction string `json:"transaction,omitempty"`
	// Value is what was written, or what a read returned; empty for absent. It starts with
	// OtherObject if a read returned something else than the object requested, such as the page of
	// a proxy.
	Value string `json:"value,omitempty"`
	// Found reports whether a read found the key.
	Found bool `json:"found,omitempty"`
	// Expect is the resourceVersion that an update compared with.
	Expect string `json:"expect,omitempty"`
	// Revision is the resourceVersion or etcd revision in the response.
	Revision string `json:"revision,omitempty"`
	// Header is the revision of etcd's whole store in the response to a read, or to a transaction
	// whose condition was not met: the response shows the state at that revision. Empty in
	// records from before it was kept.
	Header string `json:"header,omitempty"`
	Call   Nanos  `json:"call"`
	Return Nanos  `json:"return"` // for Unknown: when the client gave up
	// Address is the server that the client used last, host and port, if the client chooses one
	// itself.
	Address string  `json:"address,omitempty"`
	Outcome Outcome `json:"outcome"`
	Error   string  `json:"error,omitempty"`
	// Unsent reports that there was no connection to send the request on, so it shows nothing of
	// what the server does.
	Unsent bool `json:"unsent,omitempty"`
	// RetryAfter is as in Probe.
	RetryAfter int `json:"retryAfter,omitempty"`
	// Refusal is what the server said about the key when it refused the write; empty if it said
	// nothing, if the write may have lost against its own retry (a patch), and in records from
	// before it was kept.
	Refusal Refusal `json:"refusal,omitempty"`
	// Purpose marks operations that are not part of the general traffic but made for a check:
	// "cross-read", "cross-member", "stale-read", "minority-write", "moving-read", "ready" (key
	// "/readyz"), "version" (key: a component), "certificate" (key: a name that the certificate
	// must be valid for, prefixed by its owner: balancer/, node/ or service/), "token" (key: the
	// API server that issued it; value: the user that it authenticates, or the reason of a
	// refusal), "unknown-etcd-client" (key: the port and the kind of client), "unknown-reader"
	// (key: the kind of client; value: the number of paths; error: how often each status was
	// answered, after the first path that was not refused), "lock" (a read of
	// the lock of a component that a supervisor elects), "failover" (a client that knows several
	// addresses), "burst" (updates of one version through all API servers, around a fault); once
	// the traffic has stopped, "final-write" (the last write of a key), "final-read" and
	// "cleanup". Empty for traffic.
	Purpose string `json:"purpose,omitempty"`
}

// IsOther reports whether the operation is a read whose successful response was not the object
// that was requested.
func (o Op) IsOther() bool { return o.Type == OpGet && strings.HasPrefix(o.Value, OtherObject) }

// Endpoints is one state of the default/kubernetes service's addresses.
type Endpoints struct {
	Source    string   `json:"source"` // "endpoints" or "endpointslice"
	Via       string   `json:"via"`    // entrance it was read through
	Addresses []string `json:"addresses"`
	Revision  string   `json:"revision"`
	// Sample is true for a regular reading, false for a change that a watch reported.
	Sample bool `json:"sample,omitempty"`
}

// Lease is one state of an elected component's lease.
type Lease struct {
	Name        string    `json:"name"` // such as kube-scheduler
	Via         string    `json:"via"`
	Holder      string    `json:"holder"`
	HolderNode  string    `json:"holderNode"`
	Acquire     time.Time `json:"acquire,omitzero"`
	Renew       time.Time `json:"renew,omitzero"`
	Duration    int       `json:"durationSeconds"`
	Transitions int       `json:"transitions"`
	Revision    string    `json:"revision"`
	// Strategy is how API servers choose the holder, in coordinated leader election; empty if the
	// instances elect it among themselves.
	Strategy string `json:"strategy,omitempty"`
}

// ComponentStart is how long a component may take from its start until it is ready (the catalogue's
// start time).
const ComponentStart = 10 * time.Second

// With coordinated leader election (KEP-4355), one API server runs a controller that elects the
// active instances. Its times are from k8s.io/kubernetes v1.37.1,
// pkg/controlplane/controller/leaderelection.
const (
	// CoordinatedElection is how long that controller may take once a lease has expired: it looks at
	// the lease every 5 s (defaultRequeueInterval), and waits for 5 s for the instance that does not
	// answer (electionDuration).
	CoordinatedElection = 10 * time.Second
	// ElectionController is how long it may take until another API server runs the controller: L +
	// 4.4P of its own election (the defaults of --coordinated-leadership-lease-duration, 15 s, and
	// --coordinated-leadership-retry-period, 2 s).
	ElectionController = 23800 * time.Millisecond
)

// EtcdStatus is one response, or a missing response, of an etcd member.
type EtcdStatus struct {
	Node    string `json:"node"`
	OK      bool   `json:"ok"`
	Error   string `json:"error,omitempty"`
	Cluster string `json:"cluster,omitempty"`
	Member  string `json:"member,omitempty"`
	Leader  string `json:"leader,omitempty"` // member ID; empty for none
	Learner bool   `json:"learner,omitempty"`
	// Term is the term of the last entry that the member applied; a leader that it knows of may
	// be ahead of it.
	Term      uint64   `json:"term,omitempty"`
	RaftIndex uint64   `json:"raftIndex,omitempty"` // committed
	Applied   uint64   `json:"applied,omitempty"`   // raft index too; 0 in records of before it was kept
	Revision  int64    `json:"revision,omitempty"`
	Version   string   `json:"version,omitempty"`
	Alarms    []string `json:"alarms,omitempty"`
	// Members are the voting members' IDs as this member lists them, if it was queried.
	Members []string `json:"members,omitempty"`
	// Learners are the members that do not vote yet.
	Learners []string `json:"learners,omitempty"`
	// Listed is when the member was asked for a linearizable list of them, which is as of that time
	// or later; 0 if the list is the member's own, which may be older.
	Listed Nanos `json:"listed,omitempty"`
	// Hash is the key-value hash at HashRevision, if it was queried.
	Hash         uint32 `json:"hash,omitempty"`
	HashRevision int64  `json:"hashRevision,omitempty"`
	// HashCompacted is the revision up to which the member had compacted then; hashes are
	// comparable only if it is the same.
	HashCompacted int64 `json:"hashCompacted,omitempty"`
	// Fsync and Commit are how long the member took to sync its log and to commit to its database
	// since the last reading, if they were read.
	Fsync  *Latency `json:"fsync,omitempty"`
	Commit *Latency `json:"commit,omitempty"`
}

// Latency sums up durations that a histogram counted.
type Latency struct {
	Count uint64        `json:"count"`
	Mean  time.Duration `json:"mean"`
	// P99 and Max are upper bounds of the buckets of the 99th percentile and of the longest; -1
	// for the unbounded bucket.
	P99 time.Duration `json:"p99"`
	Max time.Duration `json:"max"`
}

// ProcessState is a component's process as its node reports it.
type ProcessState struct {
	Node       string `json:"node"`
	Component  string `json:"component"`
	PID        int    `json:"pid"`
	StartTicks uint64 `json:"startTicks,omitempty"`
	State      string `json:"state,omitempty"`
	Restarts   int    `json:"restarts"`
	LastExit   string `json:"lastExit,omitempty"`
	// Standby reports that it is down on purpose: a supervisor elects the component, and another
	// instance holds its lock.
	Standby bool   `json:"standby,omitempty"`
	Error   string `json:"error,omitempty"`
	// Asked is when the node was queried; its answer is from a moment between that and the
	// entry's own time. Before is when it was queried the last time before that: the component
	// then still was as in the previous entry. 0 for the first entry.
	Asked  Nanos `json:"asked,omitempty"`
	Before Nanos `json:"before,omitempty"`
}

// FaultPhase is a step in the life of an injection.
type FaultPhase string

const (
	FaultInjected FaultPhase = "injected"
	FaultHealed   FaultPhase = "healed"
	FaultFailed   FaultPhase = "failed" // injection or healing did not work
)

// Fault is one step in the life of an injection.
type Fault struct {
	ID        string   `json:"id"`
	Name      string   `json:"name"`            // such as kill
	Target    string   `json:"target"`          // as asked for, such as etcd/leader
	Node      string   `json:"node"`            // as resolved
	Nodes     []string `json:"nodes,omitempty"` // of a zone, as resolved
	Host      string   `json:"host,omitempty"`  // as resolved, if it is not a node
	Component string   `json:"component,omitempty"`
	// Group are the components in one process with Component, including itself, if the effects
	// are on that process: each of them has the effects.
	Group  []string          `json:"group,omitempty"`
	Params map[string]string `json:"params,omitempty"`
	// Effects are what it does to the target; if empty, it may have any effect.
	Effects []Effect   `json:"effects,omitempty"`
	Phase   FaultPhase `json:"phase"`
	// Called is when the call was made, Effect when the effect was proven.
	Called Nanos  `json:"called"`
	Effect Nanos  `json:"effect,omitempty"`
	Proven bool   `json:"proven"`
	Proof  string `json:"proof"` // what shows it, in words
	// Killed reports that the component was to stop gracefully, and was killed at the end of its
	// grace period.
	Killed bool   `json:"killed,omitempty"`
	Error  string `json:"error,omitempty"`
	// Booted is when machines started after their power returned, by node, if the provider
	// reports it: their firmware takes its time before.
	Booted map[string]Nanos `json:"booted,omitempty"`
	// Missing names the ability missing in the cluster, if that is why the fault could not be
	// injected.
	Missing string `json:"missing,omitempty"`
	// Untouched reports that a failed injection was refused before it changed anything.
	Untouched bool `json:"untouched,omitempty"`
}

// SteadyApplication is the phase of a Steady that reports that the application of the traffic did
// not come up before any fault. If it came up, there is no such entry.
const SteadyApplication = "application"

// SteadyPart is the phase of a Steady about one part of the cluster that may take longer than the
// etcd members and API servers of the phase "after". If the next fault starts before a part was
// steady again and before its limit, there is no entry for it.
const SteadyPart = "part"

// The parts of SteadyPart.
const (
	// PartLease, followed by the name of an elected component: an instance on a node of the
	// cluster holds and renews its lease.
	PartLease = "lease of "
	// PartListed: every API server lists the address of each one in default/kubernetes.
	PartListed = "live addresses in default/kubernetes"
	// PartUnlisted: no API server lists any other address.
	PartUnlisted = "dead addresses in default/kubernetes"
	// PartRequests: every API server acknowledges a write and opens a watch.
	PartRequests = "writes and watches"
	// PartConnections: no TCP connection between control-plane nodes waits for a retransmission,
	// and none is missing that etcd members had before the fault.
	PartConnections = "connections between nodes"
)

// Steady is the outcome of one steady-state check.
type Steady struct {
	Phase string `json:"phase"`          // "before", "after", SteadyPart or SteadyApplication
	Part  string `json:"part,omitempty"` // of SteadyPart
	OK    bool   `json:"ok"`
	// Took is the time until the state held: from the start of the check, or from the last
	// healing if there was one.
	Took  time.Duration `json:"took"`
	Limit time.Duration `json:"limit"`
	// Unbounded is the limit without the catalogue's ceiling, if that shortens it: after a long
	// fault, connections may back off for as long.
	Unbounded time.Duration `json:"unbounded,omitempty"`
	// Since is from when Took counts, for PartConnections. First is when a part was first checked, or
	// for connections when a node did not report them the last time before the part was steady. Both
	// are 0 in records from before they were kept.
	Since    Nanos    `json:"since,omitempty"`
	First    Nanos    `json:"first,omitempty"`
	Problems []string `json:"problems,omitempty"`
}

// Phase marks the start of a step of the experiment.
type Phase struct {
	Name string `json:"name"`
}

// Harness is a sample of the harness's own health.
type Harness struct {
	// Late is how much later than asked a timer of the harness fired, the
	// largest since the last sample.
	Late time.Duration `json:"late"`
	// Queue is how many tasks on the whole machine were runnable per CPU, on average since
	// the last sample. At 3, a task that needs one second of CPU time takes three while no
	// CPU is free. 0 if it is not known.
	Queue float64 `json:"queue,omitempty"`
	// Busy is the part of the CPU time that was used since the last sample, from 0 to 1,
	// by any process on the machine. 0 if it is not known.
	Busy float64 `json:"busy,omitempty"`
	// Throttled is the part of the periods since the last sample in which the harness's processes,
	// and with them those of a local cluster, used up a CPU quota, from 0 to 1.
	Throttled float64 `json:"throttled,omitempty"`
	// Jump is how much further the wall clock advanced than the monotonic clock since the last
	// sample, if it was 10 ms or more either way: the clock was set, or the machine slept.
	Jump time.Duration `json:"jump,omitempty"`
}

// End closes a complete record.
type End struct {
	// Error says why the run stopped early, empty for a full run.
	Error string `json:"error,omitempty"`
}
