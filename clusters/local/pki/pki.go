// Package pki creates the private CAs of a cluster and every certificate, key and kubeconfig of
// its components and clients.
//
// A cluster has three CAs, like kubeadm's: one for Kubernetes, one for etcd and one for the
// front proxy (API aggregation). All keys are ECDSA P-256. A PKI is kept in memory; WriteNode
// writes a node's files to its disk, in the layout of kubeadm's /etc/kubernetes/pki, with
// kubeconfigs beside it.
package pki

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"fmt"
	"net/netip"
	"sync/atomic"
	"time"
)

// Options says for which cluster a PKI is made.
type Options struct {
	// Cluster is the cluster's name.
	Cluster string
	// Balancer is the address of the load balancer; zero if the cluster has none.
	Balancer netip.Addr
	// Service is the address of the default/kubernetes service.
	Service netip.Addr
}

// PKI contains the CAs of one cluster and the material that its nodes share. It is safe for
// concurrent use.
type PKI struct {
	options     Options
	notBefore   time.Time
	notAfter    time.Time
	authorities             // the ones that sign
	trusted     authorities // further ones that are trusted; zero for none
	old, next   authorities
	lasting     authorities // of clients alone: trusted as such, also when the others are replaced
	clients     authorities // the ones that sign for clients instead; see Lasting
	// nextSigns is set once a node was given the next key of service accounts to sign with.
	nextSigns *atomic.Bool
}

// CAs are the CAs of one cluster, and the key that signs service account tokens.
type authorities struct {
	kubernetes, etcd, frontProxy *Authority
	serviceAccount               *ecdsa.PrivateKey
}

// Identity is a client of the API servers.
type Identity struct {
	// User and Groups are what the API server sees.
	User   string
	Groups []string
}

// Admin returns the identity that may do anything.
func Admin() Identity {
	return Identity{User: "holdfast-admin", Groups: []string{"system:masters"}}
}

// controllerManager returns the identity of the controller managers.
func controllerManager() Identity { return Identity{User: "system:kube-controller-manager"} }

// scheduler returns the identity of the schedulers.
func scheduler() Identity { return Identity{User: "system:kube-scheduler"} }

// AddonManager returns the identity of the add-on managers. An add-on may be any object, so
// Kubernetes binds their account to cluster-admin; see cluster/addons/addon-manager in
// kubernetes/kubernetes.
func AddonManager() Identity {
	return Identity{User: "system:addon-manager", Groups: []string{"system:masters"}}
}

// Kwok returns the identity of kwok. It acts as many kubelets, for which Kubernetes has no
// role, so it may do anything.
func Kwok() Identity {
	return Identity{User: "holdfast-kwok", Groups: []string{"system:masters"}}
}

// Names below the directory of WriteNode.
const (
	CACert                = "ca.crt"
	ClientCACert          = "client-ca.crt" // CACert, and the CA of lasting clients
	CAKey                 = "ca.key"
	APIServerCert         = "apiserver.crt"
	APIServerKey          = "apiserver.key"
	APIServerEtcdCert     = "apiserver-etcd-client.crt"
	APIServerEtcdKey      = "apiserver-etcd-client.key"
	FrontProxyCACert      = "front-proxy-ca.crt"
	FrontProxyCert        = "front-proxy-client.crt"
	FrontProxyKey         = "front-proxy-client.key"
	ServiceAccountKey     = "sa.key"
	ServiceAccountPub     = "sa.pub"
	ControllerManagerCert = "controller-manager.crt" // serving
	ControllerManagerKey  = "controller-manager.key"
	SchedulerCert         = "scheduler.crt" // serving
	SchedulerKey          = "scheduler.key"
	// SigningCACert is the certificate of CAKey alone: CACert may hold several.
	SigningCACert    = "signing-ca.crt"
	EtcdCACert       = "etcd/ca.crt"
	EtcdClientCACert = "etcd/client-ca.crt" // likewise
	EtcdServerCert   = "etcd/server.crt"
	EtcdServerKey    = "etcd/server.key"
	EtcdPeerCert     = "etcd/peer.crt"
	EtcdPeerKey      = "etcd/peer.key"

	AdminConfig             = "admin.conf"
	ControllerManagerConfig = "controller-manager.conf"
	SchedulerConfig         = "scheduler.conf"
)

const year = 365 * 24 * time.Hour

// New makes the CAs of a cluster.
func New(o Options) (*PKI, error) {
	if o.Cluster == "" {
		return nil, fmt.Errorf("failed to make certificates: the cluster has no name")
	}
	now := time.Now()
	// Clocks may differ by an hour.
	p := &PKI{options: o, notBefore: now.Add(-time.Hour), notAfter: now.Add(year), nextSigns: &atomic.Bool{}}
	var err error
	if p.old, err = p.newAuthorities(""); err != nil {
		return nil, err
	}
	if p.next, err = p.newAuthorities(" 2"); err != nil {
		return nil, err
	}
	if p.lasting, err = p.newAuthorities(" clients"); err != nil {
		return nil, err
	}
	p.authorities = p.old
	return p, nil
}

func (p *PKI) newAuthorities(suffix string) (all authorities, err error) {
	for _, a := range []struct {
		into **Authority
		name string
	}{
		{&all.kubernetes, "kubernetes"},
		{&all.etcd, "etcd"},
		{&all.frontProxy, "front-proxy"},
	} {
		*a.into, err = newAuthority(p.options.Cluster+" "+a.name+suffix, p.notBefore, p.notAfter)
		if err != nil {
			return all, fmt.Errorf("failed to make the %s CA of cluster %s: %w", a.name, p.options.Cluster, err)
		}
	}
	if all.serviceAccount, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		return all, fmt.Errorf("failed to make the service account key of cluster %s: %w", p.options.Cluster, err)
	}
	return all, nil
}

// CA returns the certificates of the trusted Kubernetes CAs, PEM encoded, the signing one
// first.
func (p *PKI) CA() []byte { return both(p.kubernetes, p.trusted.kubernetes) }

// EtcdCA is CA for etcd's CAs.
func (p *PKI) EtcdCA() []byte { return both(p.etcd, p.trusted.etcd) }

func (p *PKI) frontProxyCA() []byte { return both(p.frontProxy, p.trusted.frontProxy) }

// BalancerName is a host name of a cluster's load balancer in serving certificates, besides
// "balancer".
func BalancerName(cluster string) string { return "api." + cluster + ".holdfast" }
