package local

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"golang.org/x/sync/errgroup"

	"github.com/holdfast-ha/holdfast/clusters"
	"github.com/holdfast-ha/holdfast/clusters/local/component"
	"github.com/holdfast-ha/holdfast/clusters/local/disk"
	"github.com/holdfast-ha/holdfast/clusters/local/pki"
	"github.com/holdfast-ha/holdfast/clusters/sandbox"
	"github.com/holdfast-ha/holdfast/clusters/system"
	"github.com/holdfast-ha/holdfast/clusters/vnet"
	"github.com/holdfast-ha/holdfast/framework"
)

// The hosts of the network. Nodes follow each other from nodeBase on.
const (
	network      = "10.77.0.0/24"
	harnessHost  = 1
	balancerHost = 10
	nodeBase     = 11
	workersHost  = 100
)

const serviceAddress = "10.96.0.1"

// Options configure Create.
type Options struct {
	// Options are those of all providers. Without LogDir and DataDir, logs and data are below Dir;
	// after NoWait, call Ready.
	clusters.Options
	// Tamper puts a proxy in front of each API server and between it and its etcd member. The
	// proxies pass everything on until Cluster.Tamper sets rules, for a cluster with planted
	// violations. The API servers' entrances, and EtcdConfig, use them.
	Tamper bool
}

// Cluster is a control plane in the sandbox of this process. It has all abilities of framework
// for a Cluster.
type Cluster struct {
	processes // on the balancer's and the workers' machines

	spec     *clusters.Cluster
	o        Options
	settings framework.Settings
	pki      *pki.PKI
	lasting  *pki.PKI // for clients that continue when the CAs are replaced
	sw       *vnet.Switch
	backend  string // the kind of device that joins the machines
	dir      string
	onDisk   bool        // DataDir is this cluster's
	names    *nameServer // nil if machines cannot have one
	balancer *machine    // nil without its own machine
	workers  *machine    // nil without simulated nodes
	etcdTLS  clientv3.Config

	// scaling is held while a node is added or removed. mu guards the results, in slices that
	// are replaced and never changed.
	scaling   sync.Mutex
	ended     bool             // guarded by scaling, as are made and removed
	made      int              // nodes so far, including removed ones
	removed   map[string]*node // by name
	mu        sync.Mutex
	members   []component.Member
	nodes     []*node
	entrances []framework.Entrance
	disks     []*disk.Process

	impair    impairments
	closeOnce sync.Once
}

var (
	_ framework.Cluster        = (*Cluster)(nil)
	_ framework.EtcdAccess     = (*Cluster)(nil)
	_ framework.EtcdBalanced   = (*Cluster)(nil)
	_ framework.NetworkFaulter = (*Cluster)(nil)
	_ framework.LinkReporter   = (*Cluster)(nil)
	_ framework.LinkProber     = (*Cluster)(nil)
	_ framework.Mortal         = (*Cluster)(nil)

	_ framework.ProcessReporter = (*Cluster)(nil)
	_ framework.Killer          = (*Cluster)(nil)
	_ framework.Stopper         = (*Cluster)(nil)
	_ framework.Starter         = (*Cluster)(nil)
	_ framework.Freezer         = (*Cluster)(nil)
	_ framework.CrashLooper     = (*Cluster)(nil)
	_ framework.HostPresser     = (*Cluster)(nil)
)

// Create creates a cluster and returns when all API servers are ready and both elected
// components have a holder. It needs a sandbox (see sandbox.Command) and the binaries of the
// cluster's versions in the cache (see release.Fetch). If it fails, nothing of the cluster is
// left.
func Create(ctx context.Context, spec *clusters.Cluster, o Options) (*Cluster, error) {
	if !sandbox.Inside() {
		return nil, errors.New("a local cluster can be made only inside a sandbox: start the program through sandbox.Command or local.Reexec")
	}
	if o.Progress == nil {
		o.Progress = func(string) {}
	}
	sweepLimits()
	o.DataDir = cmp.Or(o.DataDir, filepath.Join(o.Dir, "data"))
	o.LogDir = cmp.Or(o.LogDir, filepath.Join(o.Dir, "logs"))
	c := &Cluster{spec: spec, o: o, removed: map[string]*node{}}
	c.processes = processes{on: c.hostOf, of: "cluster " + c.Name()}
	if err := c.create(ctx); err != nil {
		_ = c.Close(context.WithoutCancel(ctx))
		return nil, fmt.Errorf("failed to create cluster %s: %w", spec.Metadata.Name, err)
	}
	return c, nil
}

func (c *Cluster) create(ctx context.Context) error {
	var err error
	if c.settings, err = clusters.Settings(c.spec); err != nil {
		return err
	}
	for i := range c.spec.Spec.Nodes {
		c.members = append(c.members, component.Member{Name: c.spec.Node(i).Name, Address: nodeAddress(i).Addr()})
	}
	c.made = len(c.members)
	if err := c.startNetwork(); err != nil {
		return err
	}
	if err := c.makeMachines(); err != nil {
		return err
	}
	began := time.Now()
	all := c.machines()
	if missing := system.MissingSysctls(c.spec.Spec.Sysctls); len(missing) > 0 {
		c.o.Progress(fmt.Sprintf("this kernel does not have %s: left out", strings.Join(missing, ", ")))
	}
	c.o.Progress(fmt.Sprintf("starting %d machines", len(all)))
	g, gctx := errgroup.WithContext(ctx)
	for _, m := range all {
		if m != c.workers {
			g.Go(func() error { return m.powerOn(gctx) })
		}
	}
	if err := g.Wait(); err != nil {
		return err
	}
	c.o.Progress(fmt.Sprintf("machines run after %s", time.Since(began).Round(time.Millisecond)))
	if c.o.NoWait {
		return nil
	}
	return c.Ready(ctx)
}

func (c *Cluster) startNetwork() error {
	dir := filepath.Join(sandbox.Dir(), c.Name())
	if err := os.Mkdir(dir, 0o755); errors.Is(err, fs.ErrExist) {
		return errors.New("this sandbox already has a cluster of that name")
	} else if err != nil {
		return err
	}
	c.dir = dir
	if c.spec.Spec.Data == clusters.DataDisk {
		if err := os.MkdirAll(filepath.Dir(c.o.DataDir), 0o700); err != nil {
			return fmt.Errorf("failed to make a directory for the data: %w", err)
		}
		if err := os.Mkdir(c.o.DataDir, 0o700); err != nil {
			return fmt.Errorf("failed to make a directory for the data: %w", err)
		}
		c.onDisk = true
	}
	c.sw = vnet.New(vnet.Config{Seed: c.o.Seed})
	port, err := c.sw.Attach(vnet.PortConfig{Name: framework.HarnessHost, Device: "holdfast0", Addrs: []netip.Prefix{host(harnessHost)}})
	if err != nil {
		return fmt.Errorf("failed to connect the harness to the network: %w", err)
	}
	c.backend = string(port.Backend())
	if err := c.startNames(); err != nil || c.names == nil {
		return err
	}
	for _, h := range c.known() {
		c.names.add(h.name, h.addr)
	}
	return nil
}

// knownHost is a name that machines can look up.
type knownHost struct {
	name string
	addr netip.Addr
}

// known returns all names of the cluster, the balancer's own first.
func (c *Cluster) known() []knownHost {
	var all []knownHost
	if c.spec.Spec.LoadBalancer.Kind != clusters.BalancerNone {
		balancer := host(balancerHost).Addr()
		all = append(all, knownHost{pki.BalancerName(c.Name()), balancer}, knownHost{framework.BalancerHost, balancer})
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, m := range c.members {
		all = append(all, knownHost{m.Name, m.Address})
	}
	if c.spec.Spec.Workers > 0 {
		all = append(all, knownHost{framework.WorkersHost, host(workersHost).Addr()})
	}
	return append(all, knownHost{framework.HarnessHost, host(harnessHost).Addr()})
}

// Name implements framework.Cluster.
func (c *Cluster) Name() string { return c.spec.Metadata.Name }

// Nodes implements framework.Cluster.
func (c *Cluster) Nodes() []framework.Node {
	var nodes []framework.Node
	for _, n := range c.controlPlane() {
		nodes = append(nodes, n.offered())
	}
	return nodes
}

// controlPlane returns the current nodes.
func (c *Cluster) controlPlane() []*node {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.nodes
}

// Entrances implements framework.Cluster.
func (c *Cluster) Entrances() []framework.Entrance {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.entrances
}

// Settings implements framework.Cluster.
func (c *Cluster) Settings() framework.Settings { return c.settings }

// Versions implements framework.Cluster.
func (c *Cluster) Versions() map[string]map[framework.Component]string {
	all := map[string]map[framework.Component]string{}
	for _, n := range c.controlPlane() {
		n.mu.Lock()
		all[n.Name()] = maps.Clone(n.versions)
		n.mu.Unlock()
	}
	return all
}

// EtcdConfig implements framework.EtcdAccess.
func (c *Cluster) EtcdConfig(name string) (clientv3.Config, error) {
	for _, n := range c.controlPlane() {
		if n.Name() == name {
			if c.o.Tamper {
				return c.etcdAt("https://" + hostPort(n.Address(), tamperEtcdPort)), nil
			}
			return c.etcdAt(component.EtcdURL(n.Address())), nil
		}
	}
	return clientv3.Config{}, fmt.Errorf("cluster %s has no node %q", c.Name(), name)
}

func (c *Cluster) etcdAt(url string) clientv3.Config {
	config := c.etcdTLS
	config.TLS = config.TLS.Clone()
	config.Endpoints = []string{url}
	return config
}

// Close deletes the cluster and its data in memory. Logs stay.
func (c *Cluster) Close(context.Context) error {
	var err error
	c.closeOnce.Do(func() {
		c.scaling.Lock()
		defer c.scaling.Unlock()
		c.ended = true
		c.impair.close()
		for _, n := range c.nodes {
			n.spoilt.forget()
		}
		var wg sync.WaitGroup
		for _, m := range c.machines() {
			wg.Go(m.close)
		}
		wg.Wait()
		if c.names != nil {
			c.names.close()
		}
		err = c.stopDisks()
		if c.sw != nil {
			err = errors.Join(err, c.sw.Close())
		}
		if c.dir != "" {
			err = errors.Join(err, os.RemoveAll(c.dir))
		}
		if c.onDisk {
			err = errors.Join(err, os.RemoveAll(c.o.DataDir))
		}
	})
	return err
}

// EndsWithProcess implements framework.Mortal: the whole cluster is in namespaces whose first
// process is this one.
func (c *Cluster) EndsWithProcess() {}
