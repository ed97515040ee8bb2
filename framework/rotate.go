package framework

import (
	"context"

	"k8s.io/client-go/rest"
)

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
