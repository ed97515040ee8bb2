package remote

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"time"

	"al.essio.dev/pkg/shellescape"

	"github.com/holdfast-ha/holdfast/clusters"
	"github.com/holdfast-ha/holdfast/clusters/agent"
	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/fault"
)

// node is a node that is reached over SSH. Its agent gives it abilities, if the owner has
// consented.
type node struct {
	*plain
	*agent.Client
	cluster *Cluster
	shell   shell
	found   *found
	etcdCA  *x509.CertPool // nil if the node has no etcd
	put     bool           // an agent was installed, or was about to be
	outlet  *outlet        // nil if its power stays on
}

var (
	_ framework.Node               = (*node)(nil)
	_ framework.Zoner              = (*node)(nil)
	_ framework.EndpointLister     = (*node)(nil)
	_ framework.EtcdListener       = (*node)(nil)
	_ framework.ProcessReporter    = (*node)(nil)
	_ framework.AuditReader        = (*node)(nil)
	_ framework.AuditSupporter     = (*node)(nil)
	_ framework.Killer             = (*node)(nil)
	_ framework.Stopper            = (*node)(nil)
	_ framework.Starter            = (*node)(nil)
	_ framework.Freezer            = (*node)(nil)
	_ framework.CrashLooper        = (*node)(nil)
	_ framework.CertificateFaulter = (*node)(nil)
	_ framework.EtcdOperator       = (*node)(nil)
	_ framework.RejoinChecker      = (*node)(nil)
	_ framework.DiskWiper          = (*node)(nil)
	_ framework.DiskFiller         = (*node)(nil)
	_ framework.ConnectionReporter = (*node)(nil)
	_ framework.Grouper            = (*node)(nil)
	_ framework.HostNamer          = (*node)(nil)
	_ framework.Distributed        = (*node)(nil)
)

// HostName implements framework.HostNamer.
func (n *node) HostName() string { return n.found.sight.host }

// Distribution implements framework.Distributed.
func (n *node) Distribution() framework.Distribution {
	return framework.Distribution{Name: n.found.profile.Name, Digest: n.found.profile.Digest}
}

// ServingEndpoints implements framework.EndpointLister. The harness has the CA of etcd, but no
// certificate that etcd accepts.
func (n *node) ServingEndpoints(c framework.Component) ([]framework.ServingEndpoint, error) {
	if c != framework.Etcd {
		return n.plain.ServingEndpoints(c)
	}
	at := func(name string, u *url.URL, path string) framework.ServingEndpoint {
		return framework.ServingEndpoint{Name: name, Address: net.JoinHostPort(n.address.String(), u.Port()), Path: path,
			TLS: &tls.Config{RootCAs: n.etcdCA, MinVersion: tls.VersionTLS12}, Names: []string{n.address.String()}}
	}
	unknown := fmt.Errorf("the address of etcd on %s is unknown", n.Name())
	etcd, ok := n.found.processes[framework.Etcd]
	if !ok || n.etcdCA == nil {
		return nil, unknown
	}
	client, peer := urlsOf(etcd, "advertise-client-urls"), urlsOf(etcd, "initial-advertise-peer-urls")
	if len(client) == 0 || len(peer) == 0 {
		return nil, unknown
	}
	return []framework.ServingEndpoint{at("client", client[0], "/version"), at("peer", peer[0], "")}, nil
}

// FurtherListeners implements framework.EtcdListener.
func (n *node) FurtherListeners() []framework.ServingEndpoint {
	etcd := n.found.processes[framework.Etcd]
	if len(etcd.args) == 0 {
		return nil
	}
	serving, _ := n.ServingEndpoints(framework.Etcd) // without them, it is all further
	return clusters.FurtherListeners(n.address, etcd.flag, serving)
}

// AuditSupport implements framework.AuditSupporter.
func (n *node) AuditSupport() error {
	if !slices.Contains(n.components, framework.APIServer) {
		return fmt.Errorf("%s has no API server", n.Name())
	}
	if n.found.config().Audit == "" {
		return fmt.Errorf("the API server on %s writes no audit log to a file (--audit-log-path)", n.Name())
	}
	return nil
}

// readCA reads the certificate of the CA of the node's etcd, if it has one.
func (n *node) readCA(ctx context.Context) error {
	client := n.found.config().EtcdClient
	file := client.CA
	if file == "" || client.URL == "" {
		return nil
	}
	text, err := n.shell.run(ctx, "cat -- "+shellescape.Quote(file))
	if err != nil {
		return fmt.Errorf("failed to read the CA of etcd: %w", err)
	}
	n.etcdCA = x509.NewCertPool()
	if !n.etcdCA.AppendCertsFromPEM([]byte(text)) {
		return fmt.Errorf("failed to read the CA of etcd on %s: %s has no certificate", n.Name(), file)
	}
	return nil
}

// needed are the components without which a node counts as broken.
var needed = []framework.Component{framework.Etcd, framework.APIServer, framework.ContainerRuntime}

// momentary is how long a component counts as broken that is killed and not held down.
const momentary = 10 * time.Second

// state is how a component is broken. Several may hold at the same time, and healing one leaves the
// others.
type state string

const (
	heldDown         state = "held down"
	frozen           state = "frozen"
	crashLooped      state = "in a crash loop"
	withoutData      state = "without its data"
	withOtherData    state = "with other data"
	withCertificates state = "with defective certificates"
)

// breaks applies a fault to a component that lasts for ttl, if the owner has consented.
func (n *node) breaks(what string, c framework.Component, s state, ttl time.Duration, do func() error) error {
	if err := n.cluster.permits(Processes, fmt.Sprintf("%s %s", what, c)); err != nil {
		return err
	}
	var nodes []string
	hits := append(n.Group(c), c)
	if slices.ContainsFunc(needed, func(one framework.Component) bool { return slices.Contains(hits, one) }) {
		nodes = []string{n.Name()}
	}
	return n.counts(c, s, nodes, ttl, do)
}

// counts does what breaks nodes for ttl, and counts it.
func (n *node) counts(c framework.Component, s state, nodes []string, ttl time.Duration, do func() error) error {
	key := n.key(c, s) + rand.Text()
	if err := n.cluster.breaks(key, nodes, ttl); err != nil {
		return err
	}
	err := do()
	if untouched(err) {
		n.cluster.broken.mend(key)
	}
	return err
}

// key is what the keys of a component in a state begin with in broken.
func (n *node) key(c framework.Component, s state) string {
	if group := n.Group(c); len(group) > 0 {
		c = group[0]
	}
	return fmt.Sprintf("%s/%s %s ", n.Name(), c, s)
}

// Group implements framework.Grouper.
func (n *node) Group(c framework.Component) []framework.Component { return n.found.Group(c) }

// mends records that a fault on a component is over, if do succeeds.
func (n *node) mends(c framework.Component, s state, do func() error) error {
	err := do()
	if err == nil {
		n.cluster.broken.mendAll(n.key(c, s))
	}
	return err
}

// oneProcess is why data and certificates of a fused etcd are not changed.
const oneProcess = "its etcd shares a process with other components, and that process has its own arguments and certificates"

// changes changes data on the node for ttl, if the owner has consented: an etcd member without its
// data, and an API server with defective certificates, serve as little as one that is down.
func (n *node) changes(what string, c framework.Component, s state, ttl time.Duration, do func() error) error {
	if err := n.cluster.permits(Data, what); err != nil {
		return err
	}
	why := ""
	switch {
	case n.found.fused(framework.Etcd):
		why = oneProcess
	case s != withCertificates:
		why = n.found.logElsewhere()
	}
	if why != "" {
		return framework.Untouched{Err: &fault.MissingAbility{Ability: "EtcdOperator", Of: "node " + n.Name(), For: "to " + what, Why: why}}
	}
	var nodes []string
	if slices.Contains(needed, c) {
		nodes = []string{n.Name()}
	}
	return n.counts(c, s, nodes, ttl, do)
}

// Kill implements framework.Killer.
func (n *node) Kill(ctx context.Context, c framework.Component, hold time.Duration) error {
	return n.breaks("kill", c, heldDown, hold, func() error { return n.Client.Kill(ctx, c, hold) })
}

// Stop implements framework.Stopper. A hold begins when the component has exited.
func (n *node) Stop(ctx context.Context, c framework.Component, hold time.Duration) error {
	broken := hold
	if hold > 0 {
		broken += agent.StopGrace
	}
	return n.breaks("stop", c, heldDown, broken, func() error { return n.Client.Stop(ctx, c, hold) })
}

// Start implements framework.Starter.
func (n *node) Start(ctx context.Context, c framework.Component) error {
	return n.mends(c, heldDown, func() error { return n.Client.Start(ctx, c) })
}

// Freeze implements framework.Freezer.
func (n *node) Freeze(ctx context.Context, c framework.Component, ttl time.Duration) error {
	return n.breaks("freeze", c, frozen, ttl, func() error { return n.Client.Freeze(ctx, c, ttl) })
}

// Thaw implements framework.Freezer.
func (n *node) Thaw(ctx context.Context, c framework.Component) error {
	return n.mends(c, frozen, func() error { return n.Client.Thaw(ctx, c) })
}

// CrashLoop implements framework.CrashLooper.
func (n *node) CrashLoop(ctx context.Context, c framework.Component, after, ttl time.Duration) error {
	return n.breaks("repeatedly kill", c, crashLooped, ttl, func() error { return n.Client.CrashLoop(ctx, c, after, ttl) })
}

// EndCrashLoop implements framework.CrashLooper.
func (n *node) EndCrashLoop(ctx context.Context, c framework.Component) error {
	return n.mends(c, crashLooped, func() error { return n.Client.EndCrashLoop(ctx, c) })
}

// SpoilCertificates implements framework.CertificateFaulter.
func (n *node) SpoilCertificates(ctx context.Context, c framework.Component, d framework.CertificateDefect, ttl time.Duration) error {
	return n.changes("replace certificates with defective ones", c, withCertificates, ttl, func() error { return n.Client.SpoilCertificates(ctx, c, d, ttl) })
}

// RestoreCertificates implements framework.CertificateFaulter.
func (n *node) RestoreCertificates(ctx context.Context, c framework.Component) error {
	return n.mends(c, withCertificates, func() error { return n.Client.RestoreCertificates(ctx, c) })
}

// CheckRejoin implements framework.RejoinChecker. A member that joins again starts with other
// arguments, and only those of a static pod can be changed.
func (n *node) CheckRejoin() error {
	switch {
	case n.found.fused(framework.Etcd):
		return errors.New(oneProcess)
	case n.found.logElsewhere() != "":
		return errors.New(n.found.logElsewhere())
	case n.found.component(framework.Etcd).Manifest == "":
		return errors.New("a member that joins again starts with other arguments, and only those of a static pod can be changed")
	}
	return nil
}

// RejoinEtcd implements framework.EtcdOperator. It heals the removal of the member, so it needs no
// valid consent, whatever else is broken.
func (n *node) RejoinEtcd(ctx context.Context, members []framework.EtcdPeer) error {
	if err := n.cluster.broken.add(n.cluster.Name(), n.key(framework.Etcd, withOtherData)+rand.Text(), []string{n.Name()}, momentary, true); err != nil {
		return err
	}
	return n.Client.RejoinEtcd(ctx, members)
}

// ReplaceEtcdData implements framework.EtcdOperator.
func (n *node) ReplaceEtcdData(ctx context.Context, dir string) error {
	return n.changes("replace the data of etcd", framework.Etcd, withOtherData, 0, func() error { return n.Client.ReplaceEtcdData(ctx, dir) })
}

// WipeDisk implements framework.DiskWiper.
func (n *node) WipeDisk(ctx context.Context, ttl time.Duration) (handle string, err error) {
	err = n.changes("wipe the data of etcd", framework.Etcd, withoutData, ttl, func() (err error) {
		handle, err = n.Client.WipeDisk(ctx, ttl)
		return err
	})
	return handle, err
}

// RestoreDisk implements framework.DiskWiper.
func (n *node) RestoreDisk(ctx context.Context, handle string) error {
	return n.mends(framework.Etcd, withoutData, func() error { return n.Client.RestoreDisk(ctx, handle) })
}
