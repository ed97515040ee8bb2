package framework

import (
	"context"
	"fmt"
	"time"

	"k8s.io/client-go/rest"
)

// Step is one step of a change to the cluster's nodes that took effect, such as the
// promotion of an etcd member while a node is added.
type Step struct {
	// Node is the name of the node that the step changed; empty if it changed none.
	Node string `json:"node,omitempty"`
	// Name says what the step did, such as "promote etcd member".
	Name string `json:"name"`
	// Component is the one that the step restarted in Version; empty for another step.
	Component Component `json:"component,omitempty"`
	Version   string    `json:"version,omitempty"`
	// Proof is what shows that it took effect, such as the version that the API server
	// answered.
	Proof string `json:"proof"`
	// Began is when the step started, Done when its proof was seen.
	Began time.Time `json:"began"`
	Done  time.Time `json:"done"`
}

type stepsKey struct{}

// WithSteps returns a context in which every change of a Scaler or an Upgrader reports its
// steps to report, each as soon as it took effect. An error that report returns interrupts
// the change after that step, as the end of the context would: the change undoes what it
// can and returns an error that wraps it.
func WithSteps(ctx context.Context, report func(Step) error) context.Context {
	return context.WithValue(ctx, stepsKey{}, report)
}

// Uninterrupted returns a context for steps that cannot be undone and must be completed:
// they are reported, but neither the end of ctx nor the report interrupts them.
func Uninterrupted(ctx context.Context) context.Context {
	report, ok := ctx.Value(stepsKey{}).(func(Step) error)
	ctx = context.WithoutCancel(ctx)
	if !ok {
		return ctx
	}
	return WithSteps(ctx, func(s Step) error { _ = report(s); return nil })
}

// DoStep makes one step of a change: do changes the node and returns the proof of it. Its
// errors name the step and the node.
func DoStep(ctx context.Context, node, name string, do func(context.Context) (proof string, err error)) error {
	return doStep(ctx, Step{Node: node, Name: name}, do)
}

// Restart makes the step that restarts a component of a node in a version.
func Restart(ctx context.Context, node string, c Component, version string, do func(context.Context) (proof string, err error)) error {
	return doStep(ctx, Step{Node: node, Name: "restart " + string(c) + " in " + version, Component: c, Version: version}, do)
}

func doStep(ctx context.Context, s Step, do func(context.Context) (proof string, err error)) error {
	s.Began = time.Now()
	var err error
	if s.Proof, err = do(ctx); err == nil {
		s.Done = time.Now()
		err = ReportStep(ctx, s)
	}
	if err != nil {
		return fmt.Errorf("step %q on %s: %w", s.Name, s.Node, err)
	}
	return nil
}

// ReportStep reports a step that took effect, for a provider that learns of it only then.
// Its error is that of the report.
func ReportStep(ctx context.Context, s Step) error {
	if report, ok := ctx.Value(stepsKey{}).(func(Step) error); ok {
		return report(s)
	}
	return nil
}

// Scaler is the ability of a cluster to gain and to lose control-plane nodes while
// it runs. Nodes, Entrances and all that is found by a node's name follow; what
// others hold of a node that is gone answers with errors. No name and no address is
// given twice.
//
// Neither method leaves a thing half done that it can take back: an error says what
// is left where it could not.
type Scaler interface {
	// AddNode makes a node like the others and returns when its API server is ready,
	// its etcd member votes, and the load balancer sends clients to it. It is refused
	// where etcd refuses another member, as it does while one of them is down.
	AddNode(ctx context.Context) (Node, error)
	// RemoveNode takes a node out for good: first from the load balancer, then its
	// API server, controller manager and scheduler are ended gracefully, then its
	// etcd member is removed, having handed on its leadership, and last its machine.
	// One that is dead or without power can be removed too. It is refused where
	// too few etcd members would be left for a quorum.
	RemoveNode(ctx context.Context, name string) error
}

// NodeReplacer is the ability of a cluster to replace a node that was removed.
type NodeReplacer interface {
	// ReplaceNode is Scaler.AddNode for a node with the name and the address of one that
	// was removed. Nothing else of that one is left.
	ReplaceNode(ctx context.Context, name string) (Node, error)
}

// Upgrader is the ability of a cluster to have its nodes change to another version of
// Kubernetes, one at a time, while it runs. Versions follows node by node.
//
// The order is the caller's: control-plane nodes first, in any order, then workers. What
// the version skew policy forbids is refused before anything is touched: API servers are
// at most one minor version apart, and a kubelet is never newer than an API server nor
// more than three minor versions older
// (https://kubernetes.io/releases/version-skew-policy).
type Upgrader interface {
	// UpgradeNode has a control-plane node or a worker change to a version ("v1.37.1")
	// and returns when it serves in that: its components and, where it has one, its
	// kubelet run it and are ready. It does nothing on a node that runs it already.
	// Its components restart, one after the other; pods of others stay.
	//
	// A version that is lower than the node's takes it back. A provider that cannot do
	// that says so with errors.ErrUnsupported.
	//
	// An error that is ErrNothingDone has left everything as it was. Any other leaves
	// the node between the two versions, some of its components in the one and some in
	// the other; it may be tried again. Nothing but that node has changed, except for
	// what the cluster's nodes share, such as its add-ons.
	UpgradeNode(ctx context.Context, name, version string) error
	// CheckUpgrade returns the error with which UpgradeNode would refuse, which is
	// ErrNothingDone, or nil. It changes nothing and gets nothing.
	CheckUpgrade(ctx context.Context, name, version string) error
	// UpgradeOrder returns the names of all nodes that can be upgraded, workers included,
	// in an order in which they may be.
	UpgradeOrder() []string
}

// EtcdUpgrader is the ability of a cluster to have its etcd members change to another
// version, one at a time, while it runs; on other providers etcd follows UpgradeNode.
type EtcdUpgrader interface {
	// UpgradeEtcd has the member of a control-plane node change to a version ("v3.7.3") and
	// returns when it serves in that and has caught up with the others. It does nothing if
	// the member runs it already. What etcd does not support, such as a lower version or
	// two minor versions at once, is refused before anything is touched
	// (https://etcd.io/docs/v3.7/upgrades); such an error is ErrNothingDone.
	UpgradeEtcd(ctx context.Context, name, version string) error
	// CheckEtcdUpgrade returns the error with which UpgradeEtcd would refuse, or nil. It
	// changes nothing and downloads nothing.
	CheckEtcdUpgrade(ctx context.Context, name, version string) error
}

// Reconfigurer is the ability of a cluster to restart the components of a node, one after
// the other, with other arguments, while the versions stay.
type Reconfigurer interface {
	// Reconfigure restarts the components that args names with these arguments besides, or
	// in the place of, those that they have, and returns when they are ready. An error may
	// leave some of them restarted; it may be tried again.
	Reconfigure(ctx context.Context, name string, args map[Component]map[string]string) error
}

// EtcdOperator is the ability of a node to give its etcd member other data, as
// people do who repair a cluster.
type EtcdOperator interface {
	// RejoinEtcd ends the member, wipes its data and starts it as a new member
	// of the cluster of these members, to which it has been added before. It
	// returns once the member was told to start.
	RejoinEtcd(ctx context.Context, members []EtcdPeer) error
	// RestoreEtcd replaces the data of a member that does not run, because it
	// is held down, by a snapshot: the path of a file as etcd's Snapshot call
	// writes it. From its next start on it is one of these members of a new
	// cluster, which all have to be restored from the same snapshot. Its revision is
	// higher by bump, and all before that counts as compacted, so that no client sees the
	// revision go back; 0 leaves it as it was.
	RestoreEtcd(ctx context.Context, snapshot string, members []EtcdPeer, bump uint64) error
}

// EtcdPeer is an etcd member as others reach it.
type EtcdPeer struct {
	Name string `json:"name"`
	// URLs are those of the member's peer port.
	URLs []string `json:"urls"`
}

// CertificateRotator is the ability of a cluster to have the certificates of its nodes
// replaced, one node at a time, while it runs, and the CAs that they come from.
//
// Each change restarts the components of the node, one after the other, and returns when
// they serve with their new certificates. An error that is ErrNothingDone has left
// everything as it was; after any other the change may be made again, or taken back by one
// to the stage before.
type CertificateRotator interface {
	// RotateCertificates gives all components of a control-plane node new certificates and
	// keys, from the CA that theirs are from.
	RotateCertificates(ctx context.Context, name string) error
	// RotateCA takes a control-plane node to a stage of the replacement of all CAs. What
	// would have another node refuse this one, or be refused by it, because they would be
	// more than one stage apart, is refused.
	RotateCA(ctx context.Context, name string, to TrustStage) error
	// TrustStages returns at which stage each node is: the lowest and the highest of which
	// it may have something.
	TrustStages() map[string][2]TrustStage
	// CAClients returns the TLS of clients that may do anything, each of which knows only
	// one CA of Kubernetes: it trusts no other and has a certificate from it. They are by
	// the name of the CA; the old and the new one are there at every stage.
	CAClients() (map[string]rest.TLSClientConfig, error)
}

// TrustStage is how far a node is with the replacement of the CAs.
type TrustStage int

const (
	// TrustOld is the stage before the replacement.
	TrustOld TrustStage = iota
	// TrustBoth has certificates from the old CA, and accepts those from either.
	TrustBoth
	// TrustBothUseNew has certificates from the new CA, and accepts those from either.
	TrustBothUseNew
	// TrustNew has and accepts those from the new CA alone.
	TrustNew
)

// TrustStageNames are the names of the stages in scenarios and records, by stage.
var TrustStageNames = []string{"trust-old", "trust-both", "use-new", "trust-new"}

// String implements fmt.Stringer.
func (s TrustStage) String() string { return TrustStageNames[s] }
