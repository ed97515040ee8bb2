package workload

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"k8s.io/client-go/rest"

	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/record"
	"github.com/holdfast-ha/holdfast/framework/workload/client"
)

// serviceName is the name of the default/kubernetes service, by which pods reach the API servers,
// to which a cluster adds its DNS domain.
const serviceName = "kubernetes.default.svc"

// serviceNames are those of the default/kubernetes service in any cluster.
var serviceNames = []string{"kubernetes", "kubernetes.default", serviceName}

// Certificates makes a TLS handshake at each entrance for each name and address that clients may
// use: those of the load balancer and of the kubernetes service, and for an API server the
// address of its node. The operations have the purpose "certificate"; the key is the name,
// prefixed by its owner (balancer/, node/ or service/). An outcome Refused means that the
// certificate does not verify; Unknown, that the handshake failed. The error says that the names
// to verify could not be found out.
func Certificates(ctx context.Context, c framework.Cluster, w *record.Writer) error {
	common, err := commonNames(ctx, c)
	if err != nil {
		return fmt.Errorf("certificates: %w", err)
	}
	err = framework.Each(c.Entrances(), func(e framework.Entrance) error {
		d, err := door(e)
		if err != nil {
			return fmt.Errorf("certificates: entrance %s: %w", e.Name, err)
		}
		keys := slices.Clone(common)
		for _, n := range c.Nodes() {
			if n.Name() == e.Node {
				keys = append(keys, "node/"+n.Address().String())
			}
		}
		for _, key := range keys {
			_ = w.Append(record.KindOp, knock(ctx, d, key, w))
		}
		return nil
	})
	return cmp.Or(err, w.Err())
}

// commonNames returns the names for which the certificate of every API server must be valid,
// prefixed by their owner.
func commonNames(ctx context.Context, c framework.Cluster) ([]string, error) {
	var keys []string
	add := func(whose, name string) {
		if key := whose + "/" + name; name != "" && !slices.Contains(keys, key) {
			keys = append(keys, key)
		}
	}
	entrances := c.Entrances()
	i := slices.IndexFunc(entrances, func(e framework.Entrance) bool { return e.Kind == framework.EntranceBalancer })
	if i >= 0 {
		at, err := entranceURL(entrances[i].Config)
		if err != nil {
			return nil, err
		}
		// Clients may connect to an address and ask for a name.
		add("balancer", cmp.Or(entrances[i].Config.ServerName, at.Hostname()))
		for _, n := range c.Nodes() {
			for _, name := range servingNames(n) {
				// A node's certificate has the balancer's names besides its own.
				if name != n.Name() && name != n.Address().String() {
					add("balancer", name)
				}
			}
		}
	}
	qualified, err := qualifiedNames(ctx, entrances)
	if err != nil {
		return nil, err
	}
	for _, name := range slices.Concat(serviceNames, qualified) {
		add("service", name)
	}
	address, err := serviceAddress(ctx, entrances)
	add("service", address)
	return keys, err
}

// qualifiedNames returns the names of the kubernetes service with the cluster's DNS domain (kubeadm:
// networking.dnsDomain). Only the certificates show which domain that is: the name that at least
// half of the API servers have, each of them must have. A name of fewer may be an old one.
func qualifiedNames(ctx context.Context, entrances []framework.Entrance) ([]string, error) {
	answered, have := 0, map[string]int{}
	for _, e := range entrances {
		if e.Kind == framework.EntranceBalancer {
			continue // its certificate may be another one
		}
		d, err := door(e)
		if err != nil {
			return nil, fmt.Errorf("entrance %s: %w", e.Name, err)
		}
		leaf, err := shake(ctx, d, serviceName)
		if err != nil {
			continue // it is recorded when the handshakes for all names are made
		}
		answered++
		for _, name := range slices.Compact(slices.Sorted(slices.Values(leaf.DNSNames))) {
			if strings.HasPrefix(name, serviceName+".") {
				have[name]++
			}
		}
	}
	maps.DeleteFunc(have, func(_ string, n int) bool { return 2*n < answered })
	return slices.Sorted(maps.Keys(have)), nil
}

// servingNames are the names that the certificate of a node's API server must have, according to
// the node.
func servingNames(n framework.Node) (names []string) {
	lister, ok := n.(framework.EndpointLister)
	if !ok {
		return nil
	}
	endpoints, err := lister.ServingEndpoints(framework.APIServer)
	if err != nil {
		return nil
	}
	for _, e := range endpoints {
		names = append(names, e.Names...)
	}
	return names
}

// serviceAddress asks one entrance after another for the address of the kubernetes
// service.
func serviceAddress(ctx context.Context, entrances []framework.Entrance) (string, error) {
	var problems []error
	for _, e := range entrances {
		api, err := client.NewAPI(e.Config, client.Options{NewConnections: true})
		if err != nil {
			return "", fmt.Errorf("entrance %s: %w", e.Name, err)
		}
		ctx, cancel := context.WithTimeout(ctx, stepTimeout)
		a := api.Do(ctx, client.Request{Method: http.MethodGet, Path: "/api/v1/namespaces/default/services/kubernetes"})
		cancel()
		api.Close()
		var service struct{ Spec struct{ ClusterIP string } }
		switch {
		case a.Outcome() != record.OK:
			problems = append(problems, fmt.Errorf("through %s: %s", e.Name, a.Problem()))
		case json.Unmarshal(a.Body, &service) != nil || net.ParseIP(service.Spec.ClusterIP) == nil:
			problems = append(problems, fmt.Errorf("through %s: it has no cluster IP", e.Name))
		default:
			return service.Spec.ClusterIP, nil
		}
	}
	return "", fmt.Errorf("the cluster IP of the kubernetes service: %w", errors.Join(problems...))
}

// door returns the endpoint of an entrance at which handshakes are made.
func door(e framework.Entrance) (d framework.ServingEndpoint, err error) {
	at, err := entranceURL(e.Config)
	if err != nil {
		return d, err
	}
	d = framework.ServingEndpoint{Name: e.Name, Address: at.Host, Dial: e.Config.Dial}
	if at.Port() == "" {
		d.Address = net.JoinHostPort(at.Hostname(), "443")
	}
	if d.TLS, err = rest.TLSConfigFor(e.Config); err != nil {
		return d, err
	}
	if d.TLS == nil || d.TLS.InsecureSkipVerify {
		return d, fmt.Errorf("its configuration does not verify certificates: add the cluster's CA to it")
	}
	return d, nil
}

func entranceURL(config *rest.Config) (*url.URL, error) {
	at, _, err := rest.DefaultServerUrlFor(config)
	if err == nil && at.Scheme != "https" {
		err = fmt.Errorf("%s is served without TLS", at)
	}
	return at, err
}

// knock makes a handshake for a key, and retries if it failed.
func knock(ctx context.Context, d framework.ServingEndpoint, key string, w *record.Writer) record.Op {
	_, name, _ := strings.Cut(key, "/")
	op := record.Op{Client: "certificates", Entrance: d.Name, API: "kubernetes", Type: record.OpGet, Key: key, Purpose: "certificate"}
	for range stepTries {
		op.Call = w.Now()
		leaf, err := shake(ctx, d, name)
		op.Return = w.Now()
		switch {
		case err == nil:
			op.Outcome, op.Error, op.Found, op.Value = record.OK, "", true, fmt.Sprintf("serial %x", leaf.SerialNumber)
			return op
		case errors.As(err, new(*tls.CertificateVerificationError)):
			op.Outcome, op.Error = record.Refused, client.Shorten(err.Error())
			return op
		}
		op.Outcome, op.Error = record.Unknown, client.Shorten(err.Error())
		if !client.Pause(ctx, 250*time.Millisecond) {
			break
		}
	}
	return op
}

// shake connects, and returns the certificate that verified for a name.
func shake(ctx context.Context, d framework.ServingEndpoint, name string) (*x509.Certificate, error) {
	ctx, cancel := context.WithTimeout(ctx, stepTimeout)
	defer cancel()
	d.TLS = d.TLS.Clone()
	d.TLS.ServerName = name
	chain, err := d.VerifiedChain(ctx)
	if err != nil {
		return nil, err
	}
	return chain[0], nil
}
