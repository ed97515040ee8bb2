package local

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"

	"github.com/holdfast-ha/holdfast/clusters"
	"github.com/holdfast-ha/holdfast/clusters/agent"
	"github.com/holdfast-ha/holdfast/clusters/local/balancer"
	"github.com/holdfast-ha/holdfast/clusters/local/component"
	"github.com/holdfast-ha/holdfast/clusters/local/pki"
	"github.com/holdfast-ha/holdfast/clusters/release"
	"github.com/holdfast-ha/holdfast/clusters/system"
	"github.com/holdfast-ha/holdfast/framework"
)

// balancerStatusPort is where the built-in balancer serves the state of its backends, and a
// node whether it holds the virtual address.
const balancerStatusPort = 8404

// makeBalancer configures the load balancer on its own machine.
func (c *Cluster) makeBalancer() error {
	m, err := c.newMachine(framework.BalancerHost, host(balancerHost))
	if err != nil {
		return err
	}
	addr := m.addr.Addr()
	config := c.balancerConfig(c.nodes)
	spec := agent.Exec{Log: m.logOf(framework.LoadBalancer), Dir: m.dir}
	var file string
	var text []byte
	switch c.spec.Spec.LoadBalancer.Kind {
	case clusters.BalancerHAProxy:
		file = filepath.Join(m.dir, haproxyFile)
		spec.Path, spec.Args, text, err = balancer.HAProxy(config, file, filepath.Join(m.run, haproxySocket))
		spec.Args = append([]string{"haproxy"}, spec.Args...)
	case clusters.BalancerNGINX:
		file = filepath.Join(m.dir, "nginx.conf")
		spec.Path, spec.Args, text, err = balancer.NGINX(config, file, m.run)
		spec.Args = append([]string{"nginx"}, spec.Args...)
	case clusters.BalancerDNS:
		if c.names == nil {
			return errNoNames
		}
		config.Listen = hostPort(addr, dnsPort)
		config.Names = []string{pki.BalancerName(c.Name()), framework.BalancerHost}
		for _, name := range config.Names {
			c.names.ask(name, addr)
		}
		fallthrough
	default:
		file = filepath.Join(m.dir, builtinFile)
		spec.Path, spec.Args = system.Self, []string{roleBalancer, file}
		text, err = json.Marshal(config)
	}
	if err != nil {
		return err
	}
	if err := os.WriteFile(file, text, 0o600); err != nil {
		return fmt.Errorf("failed to write the configuration of the balancer: %w", err)
	}
	m.config.Components = []agent.Component{{Name: framework.LoadBalancer, Exec: &spec}}
	if c.spec.Spec.EtcdBalancer != "" {
		if err := c.addEtcdBalancer(m); err != nil {
			return err
		}
	}
	c.balancer = m
	if c.spec.Spec.LoadBalancer.Kind == clusters.BalancerOnDemand {
		m.config.Claimed = addr
		if c.unbalanced(c.nodes) {
			c.nodes[0].machine.config.Claimed = addr
		}
	}
	return nil
}

// retryComponent is the proxy through which kwok reaches the API, see retry. Faults and
// observers do not know it.
const retryComponent framework.Component = "retry"

// retryPort is its port on its machine's loopback.
const retryPort = 10246

// makeWorkers configures kwok, which simulates the worker nodes, on a machine
// of its own.
func (c *Cluster) makeWorkers() error {
	m, err := c.newMachine(framework.WorkersHost, host(workersHost))
	if err != nil {
		return err
	}
	c.workers = m
	return c.addKwok(m, "")
}

// addKwok makes a machine simulate one Node, or the worker nodes if none is named. It reaches
// the API through the balancer if there is one, by its name if the machine has DNS.
func (c *Cluster) addKwok(m *machine, node string) error {
	path, err := c.binary(release.Kwok, release.DefaultKwok, "kwok")
	if err != nil {
		return err
	}
	first := c.Entrances()[0]
	server := first.Config.Host
	if c.names != nil && first.Kind == framework.EntranceBalancer {
		server = "https://" + net.JoinHostPort(pki.BalancerName(c.Name()), strconv.Itoa(component.APIServerPort))
	}
	kubeconfig, err := c.lasting.Kubeconfig(pki.Kwok(), server)
	if err != nil {
		return err
	}
	file := filepath.Join(m.dir, "kwok.conf")
	if err := os.WriteFile(file, kubeconfig, 0o600); err != nil {
		return fmt.Errorf("failed to write the kubeconfig of kwok: %w", err)
	}
	local := net.JoinHostPort("127.0.0.1", strconv.Itoa(retryPort))
	spec, err := c.component(m, component.Kwok(component.Workers{Address: m.addr.Addr(), Node: node, Kubeconfig: file, Server: "http://" + local,
		Config: filepath.Join(m.dir, "config"), ExtraArgs: c.spec.Spec.ExtraArgs}), path)
	if err != nil {
		return err
	}
	spec.Exec.StartAfter = "http://" + local + "/healthz"
	m.config.Components = append(m.config.Components, m.runsItself(retryComponent, roleRetry, file, local), spec)
	return nil
}
