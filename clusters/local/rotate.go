package local

import (
	"bytes"
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"

	"k8s.io/client-go/rest"

	"github.com/holdfast-ha/holdfast/clusters/local/component"
	"github.com/holdfast-ha/holdfast/clusters/local/pki"
	"github.com/holdfast-ha/holdfast/framework"
)

var _ framework.CARotator = (*Cluster)(nil)

// RotateCertificates implements framework.CertificateRotator.
func (c *Cluster) RotateCertificates(ctx context.Context, name string) error {
	c.scaling.Lock()
	defer c.scaling.Unlock()
	n, err := c.rotatable(ctx, name)
	if err == nil {
		if at := n.stages(); at[0] != at[1] {
			err = fmt.Errorf("it is between the stages %s and %s of the replacement of the CAs: finish that or undo it first", at[0], at[1])
		}
	}
	if err != nil {
		return fmt.Errorf("failed to rotate the certificates of %s: %w", name, framework.Untouched{Err: err})
	}
	if err := n.reissue(ctx, c.pki.At(n.stages()[0]), allInOrder); err != nil {
		return fmt.Errorf("failed to rotate the certificates of %s: %w", name, err)
	}
	return nil
}

// RotateCA implements framework.CARotator.
func (c *Cluster) RotateCA(ctx context.Context, name string, to framework.TrustStage) error {
	c.scaling.Lock()
	defer c.scaling.Unlock()
	n, err := c.rotatable(ctx, name)
	if err == nil {
		err = c.apart(to)
	}
	if err != nil {
		return fmt.Errorf("failed to take %s to the stage %s of the replacement of the CAs: %w", name, to, framework.Untouched{Err: err})
	}
	at := n.stages()
	if at == [2]framework.TrustStage{to, to} {
		return nil
	}
	n.setStages(min(at[0], to), max(at[1], to))
	if err := n.reissue(ctx, c.pki.At(to), allInOrder); err != nil {
		return fmt.Errorf("failed to take %s to the stage %s of the replacement of the CAs: %w", name, to, err)
	}
	n.setStages(to, to)
	return nil
}

// ReplaceCA makes the API server of a node trust and use only the new CA of Kubernetes,
// whatever the other nodes trust: a violation to plant.
func (c *Cluster) ReplaceCA(ctx context.Context, name string) error {
	c.scaling.Lock()
	defer c.scaling.Unlock()
	n, err := c.rotatable(ctx, name)
	if err != nil {
		return err
	}
	return n.reissue(ctx, c.pki.Untrusted(), []framework.Component{framework.APIServer})
}

// DropTokenKey makes the API server of a node accept only the tokens of service accounts that
// the key it signs with has signed: a violation to plant.
func (c *Cluster) DropTokenKey(ctx context.Context, name string) error {
	c.scaling.Lock()
	defer c.scaling.Unlock()
	n, err := c.rotatable(ctx, name)
	if err != nil {
		return err
	}
	return n.reissue(ctx, c.pki.OneTokenKey(n.stages()[1]), []framework.Component{framework.APIServer})
}

// TrustStages implements framework.CARotator.
func (c *Cluster) TrustStages() map[string][2]framework.TrustStage {
	all := map[string][2]framework.TrustStage{}
	for _, n := range c.controlPlane() {
		all[n.Name()] = n.stages()
	}
	return all
}

// CAClients implements framework.CertificateRotator.
func (c *Cluster) CAClients() (map[string]rest.TLSClientConfig, error) {
	return c.oldAndNew((*pki.PKI).Signer, func(p *pki.PKI) (rest.TLSClientConfig, error) {
		config, err := p.RESTConfig(pki.Admin(), "")
		if err != nil {
			return rest.TLSClientConfig{}, err
		}
		return config.TLSClientConfig, nil
	})
}

// EtcdCAClients implements framework.CARotator.
func (c *Cluster) EtcdCAClients() (map[string]rest.TLSClientConfig, error) {
	return c.oldAndNew((*pki.PKI).EtcdSigner, (*pki.PKI).EtcdClient)
}

// FrontProxies implements framework.CARotator.
func (c *Cluster) FrontProxies() (map[string]rest.TLSClientConfig, error) {
	return c.oldAndNew((*pki.PKI).FrontProxySigner, (*pki.PKI).FrontProxy)
}

// oldAndNew returns a client of each of two CAs, the old one and the new one, by the CA's name.
func (c *Cluster) oldAndNew(name func(*pki.PKI) string, client func(*pki.PKI) (rest.TLSClientConfig, error)) (map[string]rest.TLSClientConfig, error) {
	all := map[string]rest.TLSClientConfig{}
	for _, stage := range []framework.TrustStage{framework.TrustOld, framework.TrustNew} {
		at := c.pki.At(stage)
		config, err := client(at)
		if err != nil {
			return nil, err
		}
		all[name(at)] = config
	}
	return all, nil
}

// allInOrder are the components of a node in the order in which they restart.
var allInOrder = append([]framework.Component{framework.Etcd}, restartOrder...)

// portCertificates are a component's serving certificate files, by port as in ServingEndpoints.
var portCertificates = map[framework.Component][]string{
	framework.Etcd:              {pki.EtcdServerCert, pki.EtcdPeerCert},
	framework.APIServer:         {pki.APIServerCert},
	framework.ControllerManager: {pki.ControllerManagerCert},
	framework.Scheduler:         {pki.SchedulerCert},
}

// rotatable returns the node of a name if its certificates can be replaced now.
func (c *Cluster) rotatable(ctx context.Context, name string) (*node, error) {
	if c.o.Tamper {
		return nil, errors.New("the proxies in front of its components would keep the old ones")
	}
	for component, how := range c.spec.Spec.Election {
		if how.Supervised() {
			return nil, fmt.Errorf("the podmaster, which elects %s, would keep the old ones", component)
		}
	}
	n, err := c.changeable(ctx, name)
	if err != nil {
		return nil, err
	}
	n.spoilt.mu.Lock()
	defer n.spoilt.mu.Unlock()
	if err := n.spoilt.healed(); err != nil {
		return nil, err
	}
	return n, c.etcdMembers().QuorumBeside(ctx, name)
}

// apart returns an error if a node at a stage would be more than one stage from another.
func (c *Cluster) apart(to framework.TrustStage) error {
	for _, other := range c.controlPlane() {
		if at := other.stages(); to-at[0] > 1 || at[1]-to > 1 {
			return fmt.Errorf("%s is at %s: the two would not trust each other's certificates; continue with that node first", other.Name(), at[0])
		}
	}
	return nil
}

func (n *node) stages() [2]framework.TrustStage {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.trust
}

func (n *node) setStages(low, high framework.TrustStage) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.trust = [2]framework.TrustStage{low, high}
}

// writeCertificates replaces all of the node's certificates, keys and kubeconfigs.
func (n *node) writeCertificates(from *pki.PKI) error {
	addrs := []netip.Addr{n.Address()}
	if n.cluster.spec.Spec.EtcdBalancer != "" {
		addrs = append(addrs, host(balancerHost).Addr())
	}
	return from.WriteNode(filepath.Join(n.machine.dir, pkiDir), n.Name(), component.APIServerURL(n.Address()), addrs)
}

// reissue replaces the node's certificates and restarts components, one after the other: some
// reload files while they run, but none reloads all.
func (n *node) reissue(ctx context.Context, from *pki.PKI, components []framework.Component) error {
	err := framework.DoStep(ctx, n.Name(), "write certificates", func(context.Context) (string, error) {
		// Healing a fault that is injected meanwhile would put back a certificate of another key.
		n.spoilt.mu.Lock()
		defer n.spoilt.mu.Unlock()
		if err := n.spoilt.healed(); err != nil {
			return "", err
		}
		return "from " + from.Signer() + ", trusting " + from.Trusted(), n.writeCertificates(from)
	})
	if err != nil {
		return err
	}
	for _, c := range components {
		if c == framework.Etcd {
			if err := n.cluster.etcdMembers().HandOn(ctx, n.Name()); err != nil {
				return err
			}
		}
		version := n.version(c)
		err := framework.Restart(ctx, n.Name(), c, version, func(ctx context.Context) (string, error) {
			proof, err := n.changeTo(ctx, c, version, nil)
			if err != nil {
				return "", err
			}
			served, err := n.servesOwn(ctx, c)
			return proof + served, err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// servesOwn returns which certificate a component serves on each of its ports, if that is the
// one in its file.
func (n *node) servesOwn(ctx context.Context, c framework.Component) (proof string, err error) {
	p, err := n.Process(ctx, c)
	if err != nil || p.Standby {
		return "", err
	}
	endpoints, err := n.ServingEndpoints(c)
	if err != nil {
		return "", err
	}
	for i, e := range endpoints {
		file, err := os.ReadFile(filepath.Join(n.machine.dir, pkiDir, portCertificates[c][i]))
		if err != nil {
			return "", err
		}
		block, _ := pem.Decode(file)
		limited, cancel := context.WithTimeout(ctx, agentLimit)
		chain, err := e.VerifiedChain(limited)
		cancel()
		if err != nil {
			return "", fmt.Errorf("failed to read the certificate of port %s: %w", e.Name, err)
		}
		served := chain[0]
		if block == nil || !bytes.Equal(served.Raw, block.Bytes) {
			return "", fmt.Errorf("port %s serves certificate %x of %s, which is not the one in its file", e.Name, served.SerialNumber, served.Issuer.CommonName)
		}
		proof += fmt.Sprintf("; %s: certificate %x of %s", e.Name, served.SerialNumber, served.Issuer.CommonName)
	}
	return proof, nil
}
