package kind

import (
	"encoding/pem"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/holdfast-ha/holdfast/framework"
)

// What is refused has touched nothing.
func TestRotateNothingDone(t *testing.T) {
	dir := fakeDocker(t, `echo "[{\"Name\":\"/x\",\"State\":{\"Running\":false}}]"`)
	c := upgradable(t, "v1.37.1", nil)
	for _, test := range []struct{ node, says string }{
		{"x-control-plane7", "no such control-plane node; the nodes are x-control-plane, x-control-plane2"},
		{"x-worker", "no such control-plane node"},
		{"x-control-plane", "its container is not running"},
	} {
		err := c.RotateCertificates(t.Context(), test.node)
		if !errors.Is(err, framework.ErrNothingDone) || !strings.Contains(err.Error(), test.says) ||
			!strings.Contains(err.Error(), "failed to rotate the certificates of "+test.node+" of cluster x") {
			t.Errorf("%s: %v", test.node, err)
		}
	}
	if b, _ := os.ReadFile(filepath.Join(dir, "calls")); string(b) != "container inspect x-control-plane\n" {
		t.Errorf("docker was asked:\n%s", b)
	}
}

// A node with defective certificates is neither upgraded nor rotated: kubeadm would renew those.
func TestDefectiveCertificatesStay(t *testing.T) {
	dir := fakeDocker(t, `case "$*" in
`+connectAgents+`*) echo "[{\"Name\":\"/x\",\"State\":{\"Running\":true}}]";;
esac`)
	serveAgents(t, dir, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/spoilt" {
			_, _ = io.WriteString(w, `["etcd"]`)
			return
		}
		accept(w, r)
	})
	c := upgradable(t, "v1.36.3", map[string]string{"x-control-plane": "v1.36.3", "x-control-plane2": "v1.36.3"})
	c.workers = nil
	t.Cleanup(func() { c.nodes[0].Client.Close() })
	for what, err := range map[string]error{
		"rotation":             c.RotateCertificates(t.Context(), "x-control-plane"),
		"check of the upgrade": c.CheckUpgrade(t.Context(), "x-control-plane", "v1.37.1"),
		"upgrade":              c.UpgradeNode(t.Context(), "x-control-plane", "v1.37.1"),
	} {
		if !errors.Is(err, framework.ErrNothingDone) || !strings.Contains(err.Error(), "its etcd serves with defective certificates") {
			t.Errorf("%s: %v", what, err)
		}
	}
	// Nor if they became defective after the check.
	u := &upgrade{node: c.nodes[0], version: "v1.37.1", image: "holdfast/node:v1.37.1"}
	if err := u.change(t.Context()); err == nil || !strings.Contains(err.Error(), "its etcd serves with defective certificates") {
		t.Error(err)
	}
	if got := calls(t, dir); strings.Contains(got, "kubeadm upgrade") {
		t.Errorf("kubeadm ran:\n%s", got)
	}
}

// kubeadmRenews is what kubeadm prints on a node that is not the first.
const kubeadmRenews = `[renew] Reading configuration from the "kubeadm-config" ConfigMap in namespace "kube-system"...

certificate embedded in the kubeconfig file for the admin to use and for kubeadm itself renewed
certificate for serving the Kubernetes API renewed
certificate the apiserver uses to access etcd renewed
certificate for the API server to connect to kubelet renewed
certificate embedded in the kubeconfig file for the controller manager to use renewed
certificate for liveness probes to healthcheck etcd renewed
certificate for etcd nodes to communicate with each other renewed
certificate for serving etcd renewed
certificate for the front proxy client renewed
certificate embedded in the kubeconfig file for the scheduler manager to use renewed
MISSING! certificate embedded in the kubeconfig file for the super-admin

Done renewing certificates. You must restart the kube-apiserver, kube-controller-manager, kube-scheduler and etcd, so that they can use the new certificates.
`

// kubeadm renews on the node; if it does not, the rotation stops there.
func TestRenew(t *testing.T) {
	dir := fakeDocker(t, `[ ! -f $DIR/fails ] || { echo "the CA files do not exist" >&2; exit 1; }; cat $DIR/kubeadm`)
	says := func(text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, "kubeadm"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	r := &rotation{node: upgradable(t, "v1.37.1", nil).nodes[1]}
	says(kubeadmRenews)
	if proof, err := r.renew(t.Context()); err != nil || proof != "kubeadm renewed 10 certificates" {
		t.Errorf("%q, %v", proof, err)
	}
	wantCalls(t, dir, "exec x-control-plane2 kubeadm certs renew all\n")
	says("nothing to do\n")
	if _, err := r.renew(t.Context()); err == nil || !strings.Contains(err.Error(), "renewed no certificates: nothing to do") {
		t.Error(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "fails"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	err := r.carryOut(t.Context())
	if err == nil || !strings.Contains(err.Error(), `step "renew certificates" on x-control-plane2`) || !strings.Contains(err.Error(), "the CA files do not exist") {
		t.Error(err)
	}
	// A caller that interrupts after the step leaves the components as they are.
	if err := os.Remove(filepath.Join(dir, "fails")); err != nil {
		t.Fatal(err)
	}
	says(kubeadmRenews)
	cut := errors.New("cut short")
	ctx := framework.WithSteps(t.Context(), func(s framework.Step) error {
		if s.Proof != "kubeadm renewed 10 certificates" || s.Node != "x-control-plane2" {
			t.Errorf("%+v", s)
		}
		return cut
	})
	if err := r.carryOut(ctx); !errors.Is(err, cut) {
		t.Error(err)
	}
}

// A certificate counts as new by its fingerprint on each port.
func TestChanged(t *testing.T) {
	if _, err := changed(map[string]string{"client": "a", "peer": "b"}, map[string]string{"client": "c", "peer": "b"}); err == nil || !strings.Contains(err.Error(), "port peer serves the old certificate") {
		t.Error(err)
	}
	proof, err := changed(map[string]string{"client": "a", "peer": "b"}, map[string]string{"client": "c", "peer": "d"})
	if want := "; client: certificate with fingerprint c instead of a; peer: certificate with fingerprint d instead of b"; err != nil || proof != want {
		t.Errorf("%q, %v", proof, err)
	}
	// Controller manager and scheduler serve nothing to others.
	if served, err := scaled("x").nodes[0].served(t.Context(), framework.Scheduler, framework.ServingEndpoint.Chain); err != nil || len(served) > 0 {
		t.Errorf("%v, %v", served, err)
	}
}

// The clients that know the CA are the administrator's.
func TestCAClients(t *testing.T) {
	server := httptest.NewTLSServer(nil)
	defer server.Close()
	ca := server.Certificate()
	c := scaled("x")
	c.admin = &rest.Config{TLSClientConfig: rest.TLSClientConfig{CertData: []byte("certificate"), CAData: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: ca.Raw})}}
	clients, err := c.CAClients()
	if err != nil || len(clients) != 1 || string(clients[ca.Subject.CommonName].CertData) != "certificate" {
		t.Errorf("%v, %v", clients, err)
	}
	c.admin.CAData = nil
	if _, err := c.CAClients(); err == nil {
		t.Error("a kubeconfig without a CA was accepted")
	}
}
