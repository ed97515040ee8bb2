package local

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/holdfast-ha/holdfast/clusters"
	"github.com/holdfast-ha/holdfast/clusters/agent"
	"github.com/holdfast-ha/holdfast/clusters/local/component"
	"github.com/holdfast-ha/holdfast/clusters/local/pki"
	"github.com/holdfast-ha/holdfast/clusters/release"
	"github.com/holdfast-ha/holdfast/framework"
)

// makeMachines writes certificates and configurations of all machines. It does not start them.
func (c *Cluster) makeMachines() error {
	hasBalancer := c.spec.Spec.LoadBalancer.Kind != clusters.BalancerNone
	po := pki.Options{Cluster: c.spec.Metadata.Name, Service: netip.MustParseAddr(serviceAddress)}
	if hasBalancer {
		po.Balancer = host(balancerHost).Addr()
	}
	var err error
	if c.pki, err = pki.New(po); err != nil {
		return err
	}
	c.lasting = c.pki.Lasting()
	tls, err := c.lasting.EtcdClientTLS()
	if err != nil {
		return err
	}
	c.etcdTLS = clientv3.Config{TLS: tls, DialTimeout: 2 * time.Second, Logger: zap.NewNop()}

	for i := range c.spec.Spec.Nodes {
		n, err := c.makeNode(c.spec.Node(i), nodeAddress(i), c.members, false)
		if err != nil {
			return err
		}
		c.nodes = append(c.nodes, n)
	}
	if err := c.addBalancer(); err != nil {
		return err
	}
	for _, n := range c.nodes {
		e, err := c.entranceOf(n)
		if err != nil {
			return err
		}
		c.entrances = append(c.entrances, e)
	}
	if c.spec.Spec.RegisterNodes {
		for _, n := range c.nodes {
			if err := c.addKwok(n.machine, n.Name()); err != nil {
				return err
			}
		}
	}
	if c.spec.Spec.Workers > 0 {
		return c.makeWorkers()
	}
	return nil
}

func (c *Cluster) entrance(name string, kind framework.EntranceKind, node, url string) (framework.Entrance, error) {
	config, err := c.lasting.RESTConfig(pki.Admin(), url)
	return framework.Entrance{Name: name, Kind: kind, Node: node, Config: config}, err
}

// entranceOf returns the entrance through a node's API server.
func (c *Cluster) entranceOf(n *node) (framework.Entrance, error) {
	url := component.APIServerURL(n.Address())
	if c.o.Tamper {
		url = "https://" + hostPort(n.Address(), tamperAPIPort)
	}
	return c.entrance(n.Name(), framework.EntranceAPIServer, n.Name(), url)
}

// component turns a command line into an agent's component. It creates its files and
// directories immediately.
func (c *Cluster) component(m *machine, cmd component.Command, path string) (agent.Component, error) {
	for _, d := range cmd.Dirs {
		if err := os.MkdirAll(d, 0o700); err != nil {
			return agent.Component{}, fmt.Errorf("%s on %s: %w", cmd.Component, m.name, err)
		}
	}
	for f, b := range cmd.Files {
		if err := os.MkdirAll(filepath.Dir(f), 0o755); err != nil {
			return agent.Component{}, fmt.Errorf("%s on %s: %w", cmd.Component, m.name, err)
		}
		if err := os.WriteFile(f, b, 0o600); err != nil {
			return agent.Component{}, fmt.Errorf("%s on %s: %w", cmd.Component, m.name, err)
		}
	}
	var env []string
	for name, value := range clusters.RuntimeEnvironment(runtime.NumCPU(), len(c.spec.Spec.Nodes)) {
		env = append(env, name+"="+value)
	}
	return agent.Component{Name: cmd.Component, Exec: &agent.Exec{Path: path, Args: append([]string{cmd.Binary}, cmd.Args...), Dir: m.dir,
		Env: env, Log: m.logOf(cmd.Component)}}, nil
}

// binary returns the path of a binary in the cache.
func (c *Cluster) binary(p release.Product, version, name string) (string, error) {
	e, err := release.Lookup(p, version, release.Options{})
	if err != nil {
		return "", err
	}
	return filepath.Join(e.Dir, name), nil
}

func (c *Cluster) newMachine(name string, addr netip.Prefix) (*machine, error) {
	run := filepath.Join(c.dir, name)
	dir := run
	if c.spec.Spec.Data == clusters.DataDisk {
		dir = filepath.Join(c.o.DataDir, name)
	}
	m, err := newMachine(name, addr, c.sw, dir, run, filepath.Join(c.o.LogDir, name))
	if err != nil {
		return nil, err
	}
	if m.hosts, err = c.hostsFile(name, addr.Addr(), run); err != nil {
		return nil, fmt.Errorf("failed to write the hosts file of %s: %w", name, err)
	}
	m.sysctls = c.spec.Spec.Sysctls
	if c.names != nil {
		m.nameServer = host(harnessHost).Addr().String()
	}
	return m, nil
}

func (c *Cluster) machines() []*machine {
	var all []*machine
	for _, n := range c.controlPlane() {
		all = append(all, n.machine)
	}
	for _, m := range []*machine{c.balancer, c.workers} {
		if m != nil && (m != c.balancer || !c.unbalanced(c.controlPlane())) {
			all = append(all, m)
		}
	}
	return all
}

// hostOf returns the machine of a component that runs on no control-plane node, nil if the
// cluster has none.
func (c *Cluster) hostOf(component framework.Component) *machine {
	switch component {
	case framework.LoadBalancer, framework.EtcdBalancer:
		return c.balancer
	case framework.Kwok:
		return c.workers
	}
	return nil
}

// host returns the address of the network's i-th host.
func host(i int) netip.Prefix {
	p := netip.MustParsePrefix(network)
	b := p.Addr().As4()
	b[3] = byte(i)
	return netip.PrefixFrom(netip.AddrFrom4(b), p.Bits())
}

func nodeAddress(i int) netip.Prefix { return host(nodeBase + i) }

func hostPort(a netip.Addr, port int) string { return net.JoinHostPort(a.String(), strconv.Itoa(port)) }
