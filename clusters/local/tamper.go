package local

import (
	"fmt"
	"path/filepath"

	"github.com/holdfast-ha/holdfast/clusters"
	"github.com/holdfast-ha/holdfast/clusters/local/component"
	"github.com/holdfast-ha/holdfast/clusters/local/pki"
	"github.com/holdfast-ha/holdfast/clusters/local/tamper"
	"github.com/holdfast-ha/holdfast/framework"
)

// Ports of the proxies of a node for tampering.
const (
	tamperEtcdPort = 12379
	tamperAPIPort  = 16443
)

// tamperComponent is the program of both proxies. Faults and observers do not know it.
const tamperComponent framework.Component = "tamper"

// Tamper returns a client for the proxies of a node, see Options.Tamper.
func (c *Cluster) Tamper(name string) (*tamper.Client, error) {
	for _, n := range c.controlPlane() {
		if n.Name() == name && c.o.Tamper {
			return tamper.NewClient(name, n.machine.tamperSocket()), nil
		}
	}
	return nil, fmt.Errorf("cluster %s has no node %q that can be tampered with", c.Name(), name)
}

func (m *machine) tamperSocket() string { return filepath.Join(m.run, "tamper.sock") }

// addTamper puts the proxies on a node's machine, before its other components.
func (c *Cluster) addTamper(m *machine) error {
	file := func(name string) string { return filepath.Join(m.dir, pkiDir, name) }
	everywhere, self := func(port int) string { return fmt.Sprintf("0.0.0.0:%d", port) }, func(port int) string { return fmt.Sprintf("127.0.0.1:%d", port) }
	return m.addProgram(tamperComponent, "tamper.json", tamper.Config{
		Control: m.tamperSocket(),
		Etcd: tamper.EtcdConfig{Listen: everywhere(tamperEtcdPort), Member: self(component.EtcdClientPort),
			Cert: file(pki.EtcdServerCert), Key: file(pki.EtcdServerKey), CA: file(pki.EtcdClientCACert)},
		API: tamper.APIConfig{Listen: everywhere(tamperAPIPort), Server: self(component.APIServerPort),
			Cert: file(pki.APIServerCert), Key: file(pki.APIServerKey), CA: file(pki.ClientCACert),
			FrontCert: file(pki.FrontProxyCert), FrontKey: file(pki.FrontProxyKey)},
	}, roleTamper)
}

// throughTamper points an API server's arguments at the proxy in front of its
// member.
func throughTamper(args clusters.ExtraArgs) clusters.ExtraArgs {
	server := fmt.Sprintf("https://127.0.0.1:%d", tamperEtcdPort)
	return args.Merge(clusters.ExtraArgs{framework.APIServer: {"etcd-servers": server}})
}
