package pki

import (
	"crypto/ecdsa"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"

	"k8s.io/client-go/util/keyutil"
)

// WriteNode writes the files of a control-plane node into dir, which it creates if needed.
// Serving certificates contain the node's name and addrs, and the API server's also every other
// endpoint: the balancer's names and address, the service's names and address, and the loopback. The
// kubeconfigs use server, the URL of the node's own API server.
func (p *PKI) WriteNode(dir, node, server string, addrs []netip.Addr) error {
	if err := p.writeNode(dir, node, server, addrs); err != nil {
		return fmt.Errorf("failed to write certificates of node %s into %s: %w", node, dir, err)
	}
	return nil
}

func (p *PKI) writeNode(dir, node, server string, addrs []netip.Addr) error {
	loopback := []netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, 1}), netip.IPv6Loopback()}
	addrs = append(append([]netip.Addr{}, addrs...), loopback...)
	names := []string{node, "localhost"}

	apiAddrs := append(append([]netip.Addr{}, addrs...), p.options.Service)
	apiNames := append(append([]string{}, names...),
		"kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local")
	if p.options.Balancer.IsValid() {
		apiAddrs = append(apiAddrs, p.options.Balancer)
		apiNames = append(apiNames, "balancer", BalancerName(p.options.Cluster))
	}

	files := map[string][]byte{
		CACert:           p.CA(),
		ClientCACert:     slices.Concat(p.CA(), p.lasting.kubernetes.certPEM),
		SigningCACert:    p.kubernetes.certPEM,
		CAKey:            p.kubernetes.keyPEM,
		EtcdCACert:       p.EtcdCA(),
		EtcdClientCACert: slices.Concat(p.EtcdCA(), p.lasting.etcd.certPEM),
		FrontProxyCACert: p.frontProxyCA(),
	}
	for _, want := range []struct {
		cert, key string
		from      *Authority
		leaf      leaf
	}{
		{APIServerCert, APIServerKey, p.kubernetes, leaf{name: "kube-apiserver", server: true, addrs: apiAddrs, dns: apiNames}},
		{APIServerEtcdCert, APIServerEtcdKey, p.etcd, leaf{name: "kube-apiserver-etcd-client", client: true}},
		{FrontProxyCert, FrontProxyKey, p.frontProxy, leaf{name: frontProxyName, client: true}},
		{ControllerManagerCert, ControllerManagerKey, p.kubernetes, leaf{name: "kube-controller-manager", server: true, addrs: addrs, dns: names}},
		{SchedulerCert, SchedulerKey, p.kubernetes, leaf{name: "kube-scheduler", server: true, addrs: addrs, dns: names}},
		// etcd uses its server certificate as a client too, for its own
		// gRPC gateway; its peer certificate works in both directions.
		{EtcdServerCert, EtcdServerKey, p.etcd, leaf{name: node, server: true, client: true, addrs: addrs, dns: names}},
		{EtcdPeerCert, EtcdPeerKey, p.etcd, leaf{name: node, server: true, client: true, addrs: addrs, dns: names}},
	} {
		cert, key, err := want.from.issue(want.leaf)
		if err != nil {
			return fmt.Errorf("failed to issue %s: %w", want.cert, err)
		}
		files[want.cert], files[want.key] = cert, key
	}

	saKey, err := keyutil.MarshalPrivateKeyToPEM(p.serviceAccount)
	if err != nil {
		return err
	}
	if p.serviceAccount == p.next.serviceAccount {
		p.nextSigns.Store(true)
	}
	files[ServiceAccountKey] = saKey
	for _, key := range []*ecdsa.PrivateKey{p.serviceAccount, p.trusted.serviceAccount} {
		if key == nil {
			continue
		}
		pub, err := x509.MarshalPKIXPublicKey(key.Public())
		if err != nil {
			return err
		}
		files[ServiceAccountPub] = append(files[ServiceAccountPub], pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: pub})...)
	}

	for name, id := range map[string]Identity{
		AdminConfig:             Admin(),
		ControllerManagerConfig: controllerManager(),
		SchedulerConfig:         scheduler(),
	} {
		if files[name], err = p.Kubeconfig(id, server); err != nil {
			return err
		}
	}
	return write(dir, files)
}

func write(dir string, files map[string][]byte) error {
	if err := os.MkdirAll(filepath.Join(dir, etcdDir), 0o700); err != nil {
		return err
	}
	// Components reload files while they run: each file is replaced atomically, and a
	// certificate mismatches its key only for an instant.
	for name, data := range files {
		if err := os.WriteFile(filepath.Join(dir, name+".new"), data, 0o600); err != nil {
			return err
		}
	}
	for name := range files {
		if err := os.Rename(filepath.Join(dir, name+".new"), filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	return nil
}
