package local

import (
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/holdfast-ha/holdfast/clusters"
	"github.com/holdfast-ha/holdfast/clusters/local/balancer"
	"github.com/holdfast-ha/holdfast/clusters/local/component"
	"github.com/holdfast-ha/holdfast/framework"
)

// addEtcdBalancer puts a balancer of the etcd members on the balancer's machine. It has no
// certificate for them, so its checks only open connections.
func (c *Cluster) addEtcdBalancer(m *machine) error {
	config := balancer.Config{Listen: hostPort(m.addr.Addr(), component.EtcdClientPort), ConnectOnly: true,
		HealthCheck: c.spec.Spec.LoadBalancer.HealthCheck, Algorithm: balancer.RoundRobin}
	if c.spec.Spec.EtcdBalancer == clusters.EtcdBalancerAffinity {
		config.Algorithm = balancer.Affinity
	}
	for _, n := range c.nodes {
		config.Backends = append(config.Backends, balancer.Backend{Name: n.Name(), Address: hostPort(n.Address(), component.EtcdClientPort)})
	}
	return m.addProgram(framework.EtcdBalancer, "etcd-balancer.json", config, roleBalancer)
}

// EtcdBalancerConfig implements framework.EtcdBalanced.
func (c *Cluster) EtcdBalancerConfig() (clientv3.Config, bool) {
	if c.spec.Spec.EtcdBalancer == "" || c.balancer == nil {
		return clientv3.Config{}, false
	}
	return c.etcdAt(component.EtcdURL(c.balancer.addr.Addr())), true
}
