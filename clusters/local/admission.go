package local

import (
	"path/filepath"

	"github.com/holdfast-ha/holdfast/clusters"
	"github.com/holdfast-ha/holdfast/clusters/agent"
	"github.com/holdfast-ha/holdfast/clusters/local/component"
	"github.com/holdfast-ha/holdfast/clusters/local/pki"
	"github.com/holdfast-ha/holdfast/clusters/local/podmaster"
	"github.com/holdfast-ha/holdfast/framework"
)

// A component that is elected by a supervisor runs only while its agent admits it
// (agent.Client.Admit), each time until some moment.

var _ framework.LockReporter = (*Cluster)(nil)

// Locks implements framework.LockReporter.
func (c *Cluster) Locks() map[framework.Component]string {
	locks := map[framework.Component]string{}
	for name, how := range c.spec.Spec.Election {
		if how.Supervised() {
			locks[name] = podmaster.Key(name)
		}
	}
	return locks
}

// unelected turns off the leader election of components that a supervisor elects.
func (c *Cluster) unelected(args clusters.ExtraArgs) clusters.ExtraArgs {
	off := clusters.ExtraArgs{}
	for name := range c.Locks() {
		off[name] = map[string]string{"leader-elect": "false"}
	}
	return args.Merge(off)
}

// addPodmaster puts the podmaster on a node's machine, if the cluster has components for it.
func (c *Cluster) addPodmaster(m *machine, spec clusters.Node) error {
	file := func(name string) string { return filepath.Join(m.dir, pkiDir, name) }
	config := podmaster.Config{Node: spec.Name, Agent: m.config.Socket, Etcd: agent.EtcdClient{URL: component.EtcdURL(m.addr.Addr()),
		Cert: file(pki.APIServerEtcdCert), Key: file(pki.APIServerEtcdKey), CA: file(pki.EtcdCACert)}}
	for i := range m.config.Components {
		run := &m.config.Components[i]
		how := c.spec.Spec.Election[run.Name]
		if !how.Supervised() {
			continue
		}
		run.Exec.Supervised = true
		lease, renew, retry, err := spec.ElectionTimes(run.Name)
		if err != nil {
			return err
		}
		config.Components = append(config.Components, podmaster.Component{Name: run.Name,
			Times: podmaster.Times{Lease: lease, Renew: renew, Retry: retry}, Careless: how == clusters.ElectionCareless})
	}
	if len(config.Components) == 0 {
		return nil
	}
	return m.addProgram(framework.Podmaster, "podmaster.json", config, rolePodmaster)
}
