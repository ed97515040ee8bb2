package local

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-ha/holdfast/clusters"
	"github.com/holdfast-ha/holdfast/clusters/agent"
	"github.com/holdfast-ha/holdfast/clusters/local/clock"
	"github.com/holdfast-ha/holdfast/clusters/local/component"
	"github.com/holdfast-ha/holdfast/clusters/release"
	"github.com/holdfast-ha/holdfast/clusters/system"
	"github.com/holdfast-ha/holdfast/framework"
)

// node is a control-plane node. It has all abilities of framework for a Node.
type node struct {
	processes
	loaded
	served
	cluster *Cluster
	spec    clusters.Node // as it was created
	machine *machine
	spoilt  spoilt
	// members are those with which etcd started, or which it joined if existing.
	members  []component.Member
	existing bool
	data     string // etcd's data directory
	addons   string // the release of its add-ons, if it has an add-on manager

	mu sync.Mutex
	// versions are the components' versions, which differ while the node is between two
	// versions of Kubernetes; guarded by mu.
	versions map[framework.Component]string
	// unsettled are the components of which a change to another version or to other arguments
	// failed, so that their next start may bring it; guarded by mu.
	unsettled map[framework.Component]bool
	// reconfigured are arguments that were set after its creation; guarded by mu.
	reconfigured clusters.ExtraArgs
	// trust are the lowest and the highest stage of the CA replacement of which the node may
	// have files; guarded by mu.
	trust [2]framework.TrustStage
}

// served are the abilities of a node that its agent implements.
type served interface {
	framework.ConnectionReporter
	framework.EtcdRejoiner
	ReplaceEtcdData(ctx context.Context, dir string) error
	ShiftClock(ctx context.Context, components []framework.Component, s framework.ClockShift, ttl time.Duration) (string, error)
	ReadClock(ctx context.Context, c framework.Component) (framework.ClockReading, error)
}

var (
	_ framework.Node            = (*node)(nil)
	_ framework.ProcessReporter = (*node)(nil)
	_ framework.Killer          = (*node)(nil)
	_ framework.Stopper         = (*node)(nil)
	_ framework.Starter         = (*node)(nil)
	_ framework.Freezer         = (*node)(nil)
	_ framework.CrashLooper     = (*node)(nil)
	_ framework.Presser         = (*node)(nil)
	_ framework.Limiter         = (*node)(nil)
	_ framework.PowerSwitch     = (*node)(nil)
	_ framework.BootReporter    = (*node)(nil)
	_ framework.Zoner           = (*node)(nil)

	_ framework.ConnectionReporter = (*node)(nil)
	_ framework.EndpointLister     = (*node)(nil)
	_ framework.EtcdListener       = (*node)(nil)
	_ framework.CertificateFaulter = (*node)(nil)
	_ framework.ClockShifter       = (*node)(nil)
	_ framework.AuditReader        = (*node)(nil)
	_ framework.AuditSupporter     = (*node)(nil)
	_ framework.EtcdOperator       = (*node)(nil)
)

// pkiDir contains a node's certificates, below its machine's directory.
const pkiDir = "pki"

// makeNode writes the node's certificates and configuration. members are those with which etcd
// starts, or, if it joins an existing cluster, all members including it.
func (c *Cluster) makeNode(spec clusters.Node, addr netip.Prefix, members []component.Member, existing bool) (*node, error) {
	m, err := c.newMachine(spec.Name, addr)
	if err != nil {
		return nil, err
	}
	spec.ExtraArgs = c.unelected(spec.ExtraArgs)
	n := &node{processes: processesOf(m), loaded: loaded{m}, served: m.agent, cluster: c, spec: spec, machine: m,
		members: members, existing: existing, data: filepath.Join(m.dir, "etcd"), versions: map[framework.Component]string{}, unsettled: map[framework.Component]bool{}}
	if err := c.equip(n); err != nil {
		return nil, errors.Join(err, c.discard(n))
	}
	return n, nil
}

// equip gives a node's machine all that its components need.
func (c *Cluster) equip(n *node) (err error) {
	m, spec := n.machine, n.spec
	if spec.Disk == clusters.DiskFUSE {
		if n.data, err = c.makeDisk(m, n.data); err != nil {
			return err
		}
	}
	m.config.EtcdData = n.data
	if others := c.controlPlane(); len(others) > 0 {
		n.trust = others[0].stages()
	}
	if err := n.writeCertificates(c.pki.At(n.trust[0])); err != nil {
		return err
	}
	if c.o.Tamper {
		if err := c.addTamper(m); err != nil {
			return err
		}
	}
	components, err := n.commands(spec)
	if err != nil {
		return err
	}
	m.config.Components = append(m.config.Components, components...)
	for _, cs := range components {
		n.versions[cs.Name] = spec.KubernetesVersion
	}
	n.versions[framework.Etcd] = cmp.Or(spec.EtcdVersion, release.EmbeddedEtcd)
	if c.spec.Spec.LoadBalancer.Kind == clusters.BalancerVIP {
		if err := c.addVIP(m, n.members); err != nil {
			return err
		}
	}
	if err := c.addAddonManager(n); err != nil {
		return err
	}
	return c.addPodmaster(m, spec)
}

// commands returns the node's commands of etcd and Kubernetes, in start order, and writes their
// files.
func (n *node) commands(spec clusters.Node) (all []agent.Component, err error) {
	c, m := n.cluster, n.machine
	if c.o.Tamper {
		spec.ExtraArgs = throughTamper(spec.ExtraArgs)
	}
	commands := component.Commands(component.Node{
		Cluster: c.Name(), Name: spec.Name, Address: n.Address(), PKI: filepath.Join(m.dir, pkiDir),
		Config: filepath.Join(m.dir, "config"), Data: n.data, Logs: m.logs,
		Members: n.members, Existing: n.existing, ExtraArgs: spec.ExtraArgs,
	})
	for _, cmd := range commands {
		path, argv0 := "", cmd.Binary
		switch {
		case cmd.Component == framework.Etcd && (spec.EtcdVersion == "" || spec.EtcdVersion == release.EmbeddedEtcd):
			// The embedded member is this program under another name.
			path, argv0 = system.Self, roleEtcd
		case cmd.Component == framework.Etcd:
			path, err = c.binary(release.Etcd, spec.EtcdVersion, cmd.Binary)
		default:
			path, err = c.binary(release.Kubernetes, spec.KubernetesVersion, cmd.Binary)
		}
		if err != nil {
			return nil, err
		}
		cs, err := c.component(m, cmd, path)
		if err != nil {
			return nil, err
		}
		cs.Exec.Args[0] = argv0
		for _, before := range commands {
			if before.Component == cmd.StartAfter {
				cs.Exec.StartAfter = before.Health
			}
		}
		all = append(all, cs)
	}
	return all, nil
}

// offered returns the node with the abilities of its disk.
func (n *node) offered() framework.Node {
	if n.machine.disk != nil {
		return diskNode{n, n.machine.disk}
	}
	return n
}

// Name implements framework.Node.
func (n *node) Name() string { return n.spec.Name }

// Address implements framework.Node.
func (n *node) Address() netip.Addr { return n.machine.addr.Addr() }

// Zone implements framework.Zoner.
func (n *node) Zone() string { return n.spec.Zone }

// Components implements framework.Node: all except stand-ins.
func (n *node) Components() []framework.Component {
	var all []framework.Component
	for _, c := range n.machine.components() {
		if !slices.Contains([]framework.Component{tamperComponent, retryComponent, framework.Kwok}, c.Name) {
			all = append(all, c.Name)
		}
	}
	return all
}

// PowerOff implements framework.PowerSwitch.
func (n *node) PowerOff(_ context.Context, ttl time.Duration) error { return n.machine.powerOff(ttl) }

// PowerOn implements framework.PowerSwitch.
func (n *node) PowerOn(ctx context.Context) error { return n.machine.powerOn(ctx) }

// Powered implements framework.PowerSwitch.
func (n *node) Powered(context.Context) (bool, error) { return n.machine.powered(), nil }

// Booted implements framework.BootReporter.
func (n *node) Booted() time.Time {
	if l := n.machine.life.Load(); l != nil {
		return l.began
	}
	return time.Time{}
}

// auditLog returns the path of the API server's audit log.
func (n *node) auditLog() (path string, err error) {
	for _, c := range n.machine.components() {
		if c.Name == framework.APIServer {
			path = c.Exec.Argument("audit-log-path")
		}
	}
	if path == "" || path == "-" {
		err = fmt.Errorf("the API server on %s writes no audit log to a file (--audit-log-path)", n.Name())
	}
	return path, err
}

// AuditSupport implements framework.AuditSupporter.
func (n *node) AuditSupport() error {
	_, err := n.auditLog()
	return err
}

// FollowAudit implements framework.AuditReader.
func (n *node) FollowAudit(ctx context.Context, entry func([]byte)) error {
	path, err := n.auditLog()
	if err != nil {
		return err
	}
	return agent.FollowLog(ctx, path, entry)
}

// EtcdPeer implements framework.EtcdOperator.
func (n *node) EtcdPeer(context.Context) (framework.EtcdPeer, error) {
	return framework.EtcdPeer{Name: n.Name(), URLs: []string{n.peerURL()}}, nil
}

// ClockSupport implements framework.ClockShifter.
func (n *node) ClockSupport() error { return clock.Supported() }

// UnshiftClock implements framework.ClockShifter.
func (n *node) UnshiftClock(ctx context.Context, handle string) error {
	if !n.machine.powered() {
		return nil // its processes are gone, with their state
	}
	return n.machine.agent.UnshiftClock(ctx, handle)
}
