package workload

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"log"
	"maps"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/record"
	"github.com/holdfast-ha/holdfast/framework/workload/apitest"
)

// trusted is a cluster whose clients verify: the certificate of its servers is valid for example.com
// and 127.0.0.1.
type trusted struct{ *apitest.Cluster }

func (c trusted) Entrances() []framework.Entrance {
	all := c.Cluster.Entrances()
	for i := range all {
		authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Server(i).Certificate().Raw})
		all[i].Config = &rest.Config{Host: all[i].Config.Host, TLSClientConfig: rest.TLSClientConfig{CAData: authority}}
	}
	return all
}

func TestCertificates(t *testing.T) {
	plain := apitest.New(t, 2)
	plain.Set("/api/v1/namespaces/default/services/kubernetes", `{"metadata":{"name":"kubernetes"},"spec":{"clusterIP":"10.96.0.1"}}`)
	w, read := recording(t)
	if err := Certificates(t.Context(), plain, w); err == nil || !strings.Contains(err.Error(), "does not verify certificates") {
		t.Errorf("with clients that do not verify: %v", err)
	}
	if err := Certificates(t.Context(), trusted{plain}, w); err != nil {
		t.Fatal(err)
	}
	got := map[string]record.Outcome{}
	for _, o := range read().Ops {
		if o.V.Purpose != "certificate" || o.V.Return < o.V.Call || (o.V.Error == "") != (o.V.Outcome == record.OK) {
			t.Errorf("%+v", o.V)
		}
		got[o.V.Entrance+" "+o.V.Key] = o.V.Outcome
	}
	// Four of the service and one of the node, through each.
	if len(got) != 10 || got["node-1 node/127.0.0.1"] != record.OK || got["node-2 service/10.96.0.1"] != record.Refused ||
		got["node-2 service/kubernetes.default.svc"] != record.Refused {
		t.Errorf("outcomes %v", got)
	}
}

// named is a cluster whose first entrance is a balancer that clients address by name.
type named struct{ trusted }

func (c named) Entrances() []framework.Entrance {
	all := c.trusted.Entrances()
	all[0].Kind, all[0].Config.ServerName = framework.EntranceBalancer, "api.example.com"
	return all
}

func TestCertificatesForTheNameThatClientsAskFor(t *testing.T) {
	plain := apitest.New(t, 1)
	plain.Set("/api/v1/namespaces/default/services/kubernetes", `{"metadata":{"name":"kubernetes"},"spec":{"clusterIP":"10.96.0.1"}}`)
	keys, err := commonNames(t.Context(), named{trusted{plain}})
	if err != nil || keys[0] != "balancer/api.example.com" || slices.Contains(keys, "balancer/127.0.0.1") {
		t.Errorf("%v, %v", keys, err)
	}
}

// signed is a cluster of API servers whose certificates are valid for names of the service, its
// address and their own, and for the given names besides.
type signed struct {
	*apitest.Cluster
	authorities [][]byte
}

func newSigned(t *testing.T, names ...[]string) signed {
	t.Helper()
	c := signed{Cluster: apitest.New(t, len(names))}
	c.Set("/api/v1/namespaces/default/services/kubernetes", `{"metadata":{"name":"kubernetes"},"spec":{"clusterIP":"10.96.0.1"}}`)
	for i, more := range names {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		template := &x509.Certificate{SerialNumber: big.NewInt(int64(i + 1)), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
			DNSNames: append([]string{"kubernetes", "kubernetes.default", "kubernetes.default.svc"}, more...), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv4(10, 96, 0, 1)},
			IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}
		der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
		if err != nil {
			t.Fatal(err)
		}
		c.Server(i).TLS.Certificates = []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}
		c.authorities = append(c.authorities, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	}
	return c
}

func (c signed) Entrances() []framework.Entrance {
	all := c.Cluster.Entrances()
	for i := range all {
		all[i].Config = &rest.Config{Host: all[i].Config.Host, TLSClientConfig: rest.TLSClientConfig{CAData: c.authorities[i]}}
	}
	return all
}

// The certificates show the DNS domain of the cluster.
func TestCertificatesForTheDomain(t *testing.T) {
	local, corp := "kubernetes.default.svc.cluster.local", "kubernetes.default.svc.corp.example"
	for _, tt := range []struct {
		name    string
		servers [][]string // the qualified names of each
		want    []string   // those that are required
		refused []string
	}{
		{"the default one", [][]string{{local}, {local}, {local}}, []string{local}, nil},
		{"another one", [][]string{{corp}, {corp}, {corp}}, []string{corp}, nil},
		{"none", [][]string{nil, nil, nil}, nil, nil},
		{"one server of three is without it", [][]string{{corp}, nil, {corp}}, []string{corp}, []string{"node-2 service/" + corp}},
		{"one server of two is without it", [][]string{nil, {local}}, []string{local}, []string{"node-1 service/" + local}},
		{"one server of three has an old one too", [][]string{{corp, local}, {corp}, {corp}}, []string{corp}, nil},
		{"other names", [][]string{{local, "api.example.com", "kubernetes.default.svcs"}, {local}}, []string{local}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w, read := recording(t)
			if err := Certificates(t.Context(), newSigned(t, tt.servers...), w); err != nil {
				t.Fatal(err)
			}
			required := map[string]bool{}
			var refused []string
			for _, o := range read().Ops {
				if name, ok := strings.CutPrefix(o.V.Key, "service/"); ok && strings.HasPrefix(name, serviceName+".") {
					required[name] = true
				}
				if o.V.Outcome != record.OK {
					refused = append(refused, o.V.Entrance+" "+o.V.Key)
				}
			}
			if got := slices.Sorted(maps.Keys(required)); !slices.Equal(got, tt.want) || !slices.Equal(refused, tt.refused) {
				t.Errorf("requires %q (want %q), refused %q (want %q)", got, tt.want, refused, tt.refused)
			}
		})
	}
}

func TestCertificatesOfNobody(t *testing.T) {
	plain := apitest.New(t, 1)
	w, _ := recording(t)
	if err := Certificates(t.Context(), trusted{plain}, w); err == nil || !strings.Contains(err.Error(), "cluster IP of the kubernetes service") {
		t.Errorf("without a service: %v", err)
	}
}

// metered is a cluster whose node has a controller manager that serves metrics.
type metered struct {
	*apitest.Cluster
	metrics *httptest.Server
}

type meteredNode struct{ metered }

func (m metered) Nodes() []framework.Node { return []framework.Node{meteredNode{m}} }

func (meteredNode) Name() string        { return "node-1" }
func (meteredNode) Address() netip.Addr { return netip.MustParseAddr("127.0.0.1") }
func (meteredNode) Components() []framework.Component {
	return []framework.Component{framework.APIServer, framework.ControllerManager, framework.Scheduler}
}

func (n meteredNode) ServingEndpoints(c framework.Component) ([]framework.ServingEndpoint, error) {
	if c != framework.ControllerManager {
		return nil, context.Canceled
	}
	roots := x509.NewCertPool()
	roots.AddCert(n.metrics.Certificate())
	return []framework.ServingEndpoint{{Name: "https", Address: n.metrics.Listener.Addr().String(), TLS: &tls.Config{RootCAs: roots}}}, nil
}

func TestVersions(t *testing.T) {
	c := metered{apitest.New(t, 1), httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "# HELP kubernetes_build_info A metric\nother_info{git_version=\"v0\"} 1\n"+
			"kubernetes_build_info{build_date=\"now\",git_commit=\"\",git_version=\"v1.36.3\",minor=\"36\"} 1\n")
	}))}
	c.metrics.Config.ErrorLog = log.New(io.Discard, "", 0)
	c.metrics.StartTLS()
	defer c.metrics.Close()
	answer := `{"major":"1","minor":"37","emulationMajor":"1","emulationMinor":"36","gitVersion":"v1.37.1"}`
	c.Server(0).Hook(func(w http.ResponseWriter, r *http.Request) bool {
		text, ok := map[string]string{
			"/version": answer,
			"/api/v1/nodes": `{"kind":"NodeList","apiVersion":"v1","items":[
				{"metadata":{"name":"worker-1"},"status":{"nodeInfo":{"kubeletVersion":"v1.36.3"}}},
				{"metadata":{"name":"simulated"},"status":{"nodeInfo":{"kubeletVersion":"kwok-v0.8.0"}}}]}`,
			"/api/v1/namespaces/kube-system/pods": `{"kind":"PodList","apiVersion":"v1","items":[
				{"metadata":{"name":"kube-proxy-x"},"spec":{"nodeName":"worker-1","containers":[{"name":"kube-proxy","image":"example.org/a/kube-proxy:v1.35.1@sha256:0123"}]}},
				{"metadata":{"name":"kube-proxy-y"},"spec":{"nodeName":"worker-2","containers":[{"name":"kube-proxy","image":"example.org:5000/kube-proxy@sha256:0123"}]}}]}`,
		}[r.URL.Path]
		if ok {
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, text)
		}
		return ok
	})
	w, read := recording(t)
	if err := Versions(t.Context(), c, w); err != nil {
		t.Fatal(err)
	}
	answer = `{}`
	if err := Versions(t.Context(), c, w); err != nil {
		t.Fatal(err)
	}
	var ok, unknown, emulated []string
	for _, o := range read().Ops {
		op := o.V
		if op.Purpose == "emulated-version" {
			emulated = append(emulated, op.Entrance+" "+op.Key+" "+op.Value)
			continue
		}
		if op.Purpose != "version" || op.Entrance != "node-1" {
			t.Errorf("%+v", op)
		}
		if op.Outcome == record.OK {
			ok = append(ok, op.Key+" "+op.Value)
		} else {
			unknown = append(unknown, op.Key+": "+op.Error)
		}
	}
	got := strings.Join(ok, ", ")
	if len(ok) != 7 || strings.Count(got, "kubelet/worker-1 v1.36.3") != 2 || strings.Count(got, "kube-proxy/worker-1 v1.35.1") != 2 || !strings.Contains(got, "kube-apiserver v1.37.1") || strings.Count(got, "kube-controller-manager v1.36.3") != 2 {
		t.Errorf("versions %q", ok)
	}
	if len(unknown) != 1 || !strings.Contains(unknown[0], "no gitVersion") {
		t.Errorf("unknown %q", unknown)
	}
	if len(emulated) != 1 || emulated[0] != "node-1 kube-apiserver v1.36" {
		t.Errorf("emulated %q", emulated)
	}
}
