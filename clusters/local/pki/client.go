package pki

import (
	"cmp"
	"crypto/tls"
	"fmt"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// Kubeconfig returns a kubeconfig, keys embedded, for an identity and the URL
// of an API server or balancer.
func (p *PKI) Kubeconfig(id Identity, server string) ([]byte, error) {
	cert, key, err := p.clientCert(id)
	if err != nil {
		return nil, err
	}
	name := p.options.Cluster
	config := clientcmdapi.NewConfig()
	config.Clusters[name] = &clientcmdapi.Cluster{Server: server, CertificateAuthorityData: p.CA()}
	config.AuthInfos[id.User] = &clientcmdapi.AuthInfo{ClientCertificateData: cert, ClientKeyData: key}
	config.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: id.User}
	config.CurrentContext = name
	data, err := clientcmd.Write(*config)
	if err != nil {
		return nil, fmt.Errorf("failed to write the kubeconfig of %s: %w", id.User, err)
	}
	return data, nil
}

// RESTConfig is Kubeconfig for client-go, without client-go's limit on the rate
// of requests, which would measure itself rather than the cluster.
func (p *PKI) RESTConfig(id Identity, server string) (*rest.Config, error) {
	cert, key, err := p.clientCert(id)
	if err != nil {
		return nil, err
	}
	return &rest.Config{
		Host:            server,
		QPS:             -1,
		TLSClientConfig: rest.TLSClientConfig{CAData: p.CA(), CertData: cert, KeyData: key},
	}, nil
}

// EtcdClientTLS returns the TLS configuration of an etcd client. It verifies
// the member's certificate.
func (p *PKI) EtcdClientTLS() (*tls.Config, error) {
	client, err := p.EtcdClient()
	if err != nil {
		return nil, err
	}
	return rest.TLSConfigFor(&rest.Config{TLSClientConfig: client})
}

// EtcdClient returns the TLS configuration of an etcd client, PEM encoded.
func (p *PKI) EtcdClient() (rest.TLSClientConfig, error) {
	cert, key, err := cmp.Or(p.clients.etcd, p.etcd).issue(leaf{name: "holdfast-etcd-client", client: true})
	if err != nil {
		return rest.TLSClientConfig{}, fmt.Errorf("failed to issue an etcd client certificate: %w", err)
	}
	return rest.TLSClientConfig{CAData: p.EtcdCA(), CertData: cert, KeyData: key}, nil
}

// FrontProxy returns the TLS configuration with which a front proxy makes requests to API servers.
func (p *PKI) FrontProxy() (rest.TLSClientConfig, error) {
	cert, key, err := p.frontProxy.issue(leaf{name: frontProxyName, client: true})
	if err != nil {
		return rest.TLSClientConfig{}, fmt.Errorf("failed to issue the client certificate of a front proxy: %w", err)
	}
	return rest.TLSClientConfig{CAData: p.CA(), CertData: cert, KeyData: key}, nil
}

// frontProxyName is the name of front proxies (--requestheader-allowed-names).
const frontProxyName = "front-proxy-client"

func (p *PKI) clientCert(id Identity) (cert, key []byte, err error) {
	cert, key, err = cmp.Or(p.clients.kubernetes, p.kubernetes).issue(leaf{name: id.User, groups: id.Groups, client: true})
	if err != nil {
		return nil, nil, fmt.Errorf("failed to issue the client certificate of %s: %w", id.User, err)
	}
	return cert, key, nil
}
