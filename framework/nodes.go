package framework

import (
	"context"
	"errors"
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
	// Component is the component that the step restarted in Version; empty for other steps.
	Component Component `json:"component,omitempty"`
	Version   string    `json:"version,omitempty"`
	// Proof is the evidence that it took effect, such as the version that the API server
	// returned.
	Proof string `json:"proof"`
	// Began is when the step started, Done when its proof was seen.
	Began time.Time `json:"began"`
	Done  time.Time `json:"done"`
}

// ErrNotUndone marks, in the sense of errors.Is, the error of a change that failed and left something
// behind that it could not undo.
var ErrNotUndone = errors.New("not all of it could be undone")

type stepsKey struct{}

// WithSteps returns a context in which every change of a cluster's nodes reports its steps to
// report, each as soon as it took effect. Those that are made on several nodes at the same time
// are also reported at the same time. If report returns an error, the change stops after
// that step, as when the context is cancelled: the change undoes what it can and returns an error
// that wraps it.
func WithSteps(ctx context.Context, report func(Step) error) context.Context {
	return context.WithValue(ctx, stepsKey{}, report)
}

// Uninterrupted returns a context for steps that cannot be undone and must be completed: they are
// reported, but neither cancelling ctx nor an error of report interrupts them.
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
		if s.Node == "" {
			return fmt.Errorf("step %q: %w", s.Name, err)
		}
		return fmt.Errorf("step %q on %s: %w", s.Name, s.Node, err)
	}
	return nil
}

// ReportStep reports a step that took effect, for a provider that learns of it only afterwards.
// It returns the error of the report.
func ReportStep(ctx context.Context, s Step) error {
	if report, ok := ctx.Value(stepsKey{}).(func(Step) error); ok {
		return report(s)
	}
	return nil
}

// Scaler is the ability of a cluster to add and remove control-plane nodes while it runs. Nodes,
// Entrances and everything found by a node's name follow; objects that callers hold of a removed
// node return errors. No name and no address is used twice.
//
// Neither method leaves anything half done that it can take back: if it could not, the error says
// what is left.
type Scaler interface {
	// AddNode creates a node like the others and returns when its API server is ready, its etcd
	// member votes, and the load balancer sends clients to it. It fails if etcd refuses another
	// member, as it does while a member is down.
	AddNode(ctx context.Context) (Node, error)
	// RemoveNode removes a node permanently. It takes the node out of the load balancer, stops
	// its API server, controller manager and scheduler gracefully, removes its etcd member after
	// that handed over its leadership, and then removes its machine. A node that is dead or
	// without power can be removed too. RemoveNode fails if too few etcd members would be left
	// for a quorum.
	RemoveNode(ctx context.Context, name string) error
}

// NodeReplacer is the ability of a cluster to replace a node that was removed.
type NodeReplacer interface {
	// ReplaceNode is Scaler.AddNode for a node with the name and the address of one that was
	// removed. Nothing else of the old node is left.
	ReplaceNode(ctx context.Context, name string) (Node, error)
}

// Upgrader is the ability of a cluster to move its nodes to another Kubernetes version, one at a
// time, while it runs. Versions changes node by node.
//
// The order is the caller's: control-plane nodes first, in any order, then workers. A change that
// the version skew policy forbids is refused before anything is touched: API servers are at most
// one minor version apart, and a kubelet is never newer than an API server nor more than three
// minor versions older (https://kubernetes.io/releases/version-skew-policy).
type Upgrader interface {
	// UpgradeNode moves a control-plane node or a worker to a version ("v1.37.1") and returns
	// when the node serves in that version: its components and, if it has one, its kubelet run it
	// and are ready. It does nothing on a node that already runs the version. The node's
	// components restart, one after the other; users' pods stay.
	//
	// A lower version is a downgrade. A provider that cannot downgrade returns
	// errors.ErrUnsupported.
	//
	// An error that is ErrNothingDone left everything as it was. Any other error leaves the node
	// between the two versions, with some components in the old one and some in the new one; the
	// call may be retried. Only that node has changed, and what the cluster's nodes share, such
	// as its add-ons.
	UpgradeNode(ctx context.Context, name, version string) error
	// CheckUpgrade returns the error with which UpgradeNode would refuse, which is
	// ErrNothingDone, or nil. It changes nothing and downloads nothing.
	CheckUpgrade(ctx context.Context, name, version string) error
	// UpgradeOrder returns the names of all nodes that can be upgraded, including workers, in a
	// valid order.
	UpgradeOrder() []string
}

// EtcdUpgrader is the ability of a cluster to move its etcd members to another version, one at a
// time, while it runs; on other providers etcd follows UpgradeNode.
type EtcdUpgrader interface {
	// UpgradeEtcd moves the member of a control-plane node to a version ("v3.7.3") and returns
	// when it serves in that version and has caught up with the others. It does nothing if the
	// member already runs it. A change that etcd does not support, such as a lower version or two
	// minor versions in one step, is refused before anything is touched
	// (https://etcd.io/docs/v3.7/upgrades); such an error is ErrNothingDone.
	UpgradeEtcd(ctx context.Context, name, version string) error
	// CheckEtcdUpgrade returns the error with which UpgradeEtcd would refuse, or nil. It
	// changes nothing and downloads nothing.
	CheckEtcdUpgrade(ctx context.Context, name, version string) error
}

// Reconfigurer is the ability of a cluster to restart the components of a node, one after the
// other, with other arguments but in the same versions.
type Reconfigurer interface {
	// Reconfigure restarts the components that args names with these arguments added to theirs,
	// or replacing them, and returns when they are ready. An error may leave some of them
	// restarted; the call may be retried.
	Reconfigure(ctx context.Context, name string, args map[Component]map[string]string) error
}

// EtcdRejoiner is the ability of a node to have its etcd member start again without its data.
type EtcdRejoiner interface {
	// RejoinEtcd stops the member, wipes its data and starts it as a new member of the cluster of
	// these members, to which the caller has already added it. It returns once the start was
	// requested.
	RejoinEtcd(ctx context.Context, members []EtcdPeer) error
}

// EtcdOperator is the ability of a node to give its etcd member other data, as an operator who
// repairs a cluster does.
type EtcdOperator interface {
	EtcdRejoiner
	// EtcdPeer returns the member as it is configured, also while it is down.
	EtcdPeer(ctx context.Context) (EtcdPeer, error)
	// ReplaceEtcdData replaces the data of a member that is held down by those in a local
	// directory, as etcd's own tool makes them from a snapshot.
	ReplaceEtcdData(ctx context.Context, dir string) error
}

// RejoinChecker is the ability of an EtcdOperator to report in advance that it cannot start its
// member again as a new one.
type RejoinChecker interface {
	// CheckRejoin returns why RejoinEtcd cannot start the member; nil if it can. It changes
	// nothing.
	CheckRejoin() error
}

// EtcdPeer is an etcd member as others reach it.
type EtcdPeer struct {
	Name string `json:"name"`
	// URLs are those of the member's peer port.
	URLs []string `json:"urls"`
}

// CertificateRotator is the ability of a cluster to replace the certificates of its nodes, one
// node at a time while it runs.
//
// Each change restarts the components of the node, one after the other, and returns when they
// serve with their new certificates. An error that is ErrNothingDone left everything as it was;
// after any other error the change may be retried.
type CertificateRotator interface {
	// RotateCertificates gives all components of a control-plane node new certificates and keys,
	// from the CA that issued the current ones.
	RotateCertificates(ctx context.Context, name string) error
	// CAClients returns the TLS configuration of admin clients, each of which knows only one
	// Kubernetes CA: it trusts no other and has a certificate from it. The key is the name of the
	// CA. If the cluster is a CARotator, the old and the new one exist at every stage.
	CAClients() (map[string]rest.TLSClientConfig, error)
}

// CARotator is the ability of a cluster to also replace the CAs that issued the certificates. A
// change that failed may be reverted by a change to the previous stage, too.
type CARotator interface {
	CertificateRotator
	// RotateCA moves a control-plane node to a stage of the rotation of all CAs. It refuses a
	// change that would put two nodes more than one stage apart, because one would reject the
	// other.
	RotateCA(ctx context.Context, name string, to TrustStage) error
	// TrustStages returns the stage of each node: the lowest and the highest that any part of it
	// may be at.
	TrustStages() map[string][2]TrustStage
	// EtcdCAClients is CAClients for the CAs of etcd and its clients.
	EtcdCAClients() (map[string]rest.TLSClientConfig, error)
	// FrontProxies returns the certificates of front proxies, which make requests to API servers
	// on behalf of users: one from the old CA of front proxies and one from the new one. The key
	// is the name of the CA.
	FrontProxies() (map[string]rest.TLSClientConfig, error)
}

// TrustStage is how far a node is in the rotation of the CAs.
type TrustStage int

const (
	// TrustOld is the stage before the rotation, and after one that was undone. Tokens of service
	// accounts that the new key signed in between are accepted until they expire.
	TrustOld TrustStage = iota
	// TrustBoth has certificates from the old CA, and accepts certificates from either.
	TrustBoth
	// TrustBothUseNew has certificates from the new CA, and accepts certificates from either.
	TrustBothUseNew
	// TrustNew has and accepts only certificates from the new CA. Tokens of service accounts that
	// the old key signed are accepted until they expire.
	TrustNew
)

// TrustStageNames are the names of the stages in scenarios and records, by stage.
var TrustStageNames = []string{"trust-old", "trust-both", "use-new", "trust-new"}

// String implements fmt.Stringer.
func (s TrustStage) String() string { return TrustStageNames[s] }
