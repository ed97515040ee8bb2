package main

import (
	"bytes"
	"encoding/pem"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/holdfast-ha/holdfast/clusters"
	"github.com/holdfast-ha/holdfast/clusters/remote"
	"github.com/holdfast-ha/holdfast/suites/run"
)

// vendor is a cluster that holdfast did not create, as its API servers and an ssh show it. Nothing in
// it can be changed: it keeps what was tried.
type vendor struct {
	t         *testing.T
	dir       string
	inventory string
	ports     []string // of the API servers

	mu      sync.Mutex
	answers map[string]string // by path, or by node and path
	stopped []string          // nodes whose API server does not run
	changes []string          // requests that are not reads
}

// newVendor has three nodes with an API server each, and an ssh that prints what is seen on them.
func newVendor(t *testing.T) *vendor {
	v := &vendor{t: t, dir: t.TempDir()}
	var nodes, items []string
	ca := ""
	for i := 1; i <= 3; i++ {
		name := fmt.Sprintf("cp-%d", i)
		server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { v.answer(name, w, r) }))
		t.Cleanup(server.Close)
		address := strings.TrimPrefix(server.URL, "https://")
		nodes = append(nodes, fmt.Sprintf("  - {name: %s, address: 10.0.0.1%d, apiServer: %q, ssh: root@%s}", name, i, address, name))
		items = append(items, fmt.Sprintf(`{"metadata": {"name": %q}, "status": {"conditions": [{"type": "Ready", "status": "True"}]}}`, name))
		_, port, _ := strings.Cut(address, ":")
		v.ports = append(v.ports, port)
		v.write("root@"+name, vendorNode(i, port), 0o600)
		if i == 1 {
			ca = string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))
			v.write("kubeconfig", fmt.Sprintf("clusters:\n- {name: c, cluster: {server: %q, certificate-authority: %q}}\nusers:\n- {name: u, user: {token: t}}\n"+
				"contexts:\n- {name: x, context: {cluster: c, user: u}}\ncurrent-context: x\n", server.URL, filepath.Join(v.dir, "ca.crt")), 0o600)
		}
	}
	v.write("ca.crt", ca, 0o600)
	v.inventory = v.write("nodes.yaml", "apiVersion: holdfast.dev/v1alpha1\nkind: Inventory\nmetadata: {name: theirs}\nspec:\n  kubeconfig: kubeconfig\n  nodes:\n"+strings.Join(nodes, "\n")+"\n", 0o600)
	v.answers = map[string]string{
		"/api/v1/nodes":                       `{"items": [` + strings.Join(items, ", ") + `]}`,
		"/api/v1/namespaces/kube-system":      `{"metadata": {"uid": "u"}}`,
		"/api/v1/namespaces/kube-system/pods": `{"items": []}`,
		"/readyz":                             "ok",
		"/version":                            `{"gitVersion": "v1.37.1"}`,
		vendorConsent:                         consentTo("u", "2999-01-01T00:00:00Z", "process,network"),
	}
	if err := os.Mkdir(filepath.Join(v.dir, "calls"), 0o700); err != nil {
		t.Fatal(err)
	}
	v.write("ssh", "#!/bin/sh\nprintf '%s ' \"$@\" >"+v.dir+"/calls/$$\nwhile [ \"$1\" != -- ]; do shift; done\ncat "+v.dir+"/\"$2\"\n", 0o700)
	t.Setenv("PATH", v.dir+string(os.PathListSeparator)+os.Getenv("PATH"))
	return v
}

// vendorNode is what is seen on the i-th node.
func vendorNode(i int, port string) string {
	text := fmt.Sprintf("host cp-%d\nboot b%[1]d\nnetwork net:[%[1]d]\naddress eth0 10.0.0.1%[1]d/24\n", i)
	for pid, args := range [][]string{{"/sbin/init"}, {"kube-apiserver", "--secure-port=" + port}, {"etcd", "--data-dir=/data"}, {"kube-controller-manager"}, {"kube-scheduler"}} {
		text += fmt.Sprintf("process %d %d %s\x1f\n", pid+1, min(pid, 1), strings.Join(args, "\x1f"))
	}
	return text
}

const vendorConsent = "/api/v1/namespaces/kube-system/configmaps/holdfast-consent"

func consentTo(uid, expires, levels string) string {
	return fmt.Sprintf(`{"data": {"clusterUID": %q, "expires": %q, "levels": %q}}`, uid, expires, levels)
}

func (v *vendor) write(name, text string, mode os.FileMode) string {
	v.t.Helper()
	path := filepath.Join(v.dir, name)
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		v.t.Fatal(err)
	}
	return path
}

// answer answers reads that it knows; an empty answer is an error of the server.
func (v *vendor) answer(node string, w http.ResponseWriter, r *http.Request) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if r.Method != http.MethodGet {
		v.changes = append(v.changes, r.Method+" "+r.URL.Path)
	}
	body, ok := v.answers[node+r.URL.Path]
	if !ok {
		body, ok = v.answers[r.URL.Path]
	}
	switch {
	case slices.Contains(v.stopped, node):
		http.Error(w, "no server", http.StatusServiceUnavailable) // as a proxy in front of it would
	case !ok:
		http.NotFound(w, r)
	case body == "":
		http.Error(w, "etcd failed", http.StatusInternalServerError)
	default:
		fmt.Fprint(w, body)
	}
}

// set sets the answer to reads of a path.
func (v *vendor) set(path, body string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.answers[path] = body
}

// stop stops the API server on a node.
func (v *vendor) stop(node string) {
	v.t.Helper()
	seen, err := os.ReadFile(filepath.Join(v.dir, "root@"+node))
	if err != nil {
		v.t.Fatal(err)
	}
	v.write("root@"+node, strings.Replace(string(seen), " kube-apiserver\x1f", " other\x1f", 1), 0o600)
	v.mu.Lock()
	defer v.mu.Unlock()
	v.stopped = append(v.stopped, node)
}

// touched returns what was tried besides reads of the API and looks at nodes.
func (v *vendor) touched() []string {
	v.mu.Lock()
	defer v.mu.Unlock()
	all := v.changes
	files, err := filepath.Glob(filepath.Join(v.dir, "calls", "*"))
	if err != nil || len(files) == 0 {
		v.t.Errorf("ssh was not used, error %v", err)
	}
	for _, file := range files {
		call, err := os.ReadFile(file)
		if err != nil {
			v.t.Fatal(err)
		}
		// A look at processes, at when an agent was used last, and the end of a connection.
		looks := bytes.Contains(call, []byte("/proc/sys/kernel/hostname")) || bytes.Contains(call, []byte("</proc/uptime")) || bytes.Contains(call, []byte("-O exit"))
		if !looks {
			all = append(all, string(call))
		}
	}
	return all
}

// TestRefused: each reason to refuse a run ends it with exit code 2 before anything is touched: the
// API receives only reads, ssh only looks, and no results directory is made.
func TestRefused(t *testing.T) {
	ready := func(status string) string {
		return `{"items": [{"metadata": {"name": "cp-1"}, "status": {"conditions": [{"type": "Ready", "status": "True"}]}}, {"metadata": {"name": "cp-2"}, ` + status + `}]}`
	}
	const later = "2999-01-01T00:00:00Z"
	for _, tc := range []struct {
		name     string
		scenario string
		answers  map[string]string
		without  string // a path that does not exist
		want     string
	}{
		{"no consent", "apiserver-killed", nil, vendorConsent, "the owner of the cluster has not consented"},
		{"of another cluster", "apiserver-killed", map[string]string{vendorConsent: consentTo("other", later, "process")}, "", "the consent is for the cluster with UID other, and this one has u"},
		{"expired", "apiserver-killed", map[string]string{vendorConsent: consentTo("u", "2026-01-01T00:00:00Z", "process")}, "", "the consent expired at 2026-01-01T00:00:00Z"},
		{"to nothing but reads", "apiserver-killed", map[string]string{vendorConsent: consentTo("u", later, "read-only")}, "", "has not consented to any fault of this run, only to read-only"},
		{"to faults on processes, for one on the network", "etcd-member-isolated", map[string]string{vendorConsent: consentTo("u", later, "process")}, "", "only to read-only, process: ask for more"},
		{"unreadable", "apiserver-killed", map[string]string{vendorConsent: consentTo("u", later, "everything")}, "", `the consent allows "everything", which is unknown`},
		{"a node that is not ready", "apiserver-killed", map[string]string{"/api/v1/nodes": ready(`"status": {"conditions": [{"type": "Ready", "status": "False", "reason": "KubeletNotReady"}]}`)}, "", "node cp-2 is not ready (KubeletNotReady)"},
		{"a cordoned node", "apiserver-killed", map[string]string{"/api/v1/nodes": ready(`"spec": {"unschedulable": true}`)}, "", "node cp-2 is cordoned: is a rollout under way?"},
		{"an upgrade", "apiserver-killed", map[string]string{"cp-2/version": `{"gitVersion": "v1.36.3"}`}, "", "is an upgrade under way?"},
		{"a member that is not healthy", "apiserver-killed", map[string]string{"cp-3/readyz": ""}, "", "the API server on cp-3 is not ready"},
		{"a remediator", "apiserver-killed", map[string]string{"/apis/cluster.x-k8s.io/v1beta1/machinehealthchecks": `{"items": [{"metadata": {"name": "m"}}]}`}, "", "the health check m may replace a node"},
		{"another chaos tool", "apiserver-killed", map[string]string{"/apis/litmuschaos.io/v1alpha1/chaosengines": `{"items": [{"metadata": {"name": "e"}, "spec": {"engineState": "active"}}]}`}, "", "the chaos engine e of Litmus is active"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			v := newVendor(t)
			maps.Copy(v.answers, tc.answers)
			delete(v.answers, tc.without)
			out := filepath.Join(v.dir, "results")
			var stdout, stderr bytes.Buffer
			code := execute([]string{"run", "--inventory", v.inventory, "--scenario", tc.scenario, "--out", out}, strings.NewReader(""), &stdout, &stderr)
			if code != exitUsage || !strings.Contains(stderr.String(), tc.want) {
				t.Errorf("exit code %d, want %d, and %q in:\n%s%s", code, exitUsage, tc.want, stdout.String(), stderr.String())
			}
			for _, what := range v.touched() {
				t.Errorf("touched: %s", what)
			}
			if _, err := os.Stat(out); !os.IsNotExist(err) {
				t.Errorf("there is a results directory, error %v", err)
			}
		})
	}
}

// TestPermitInterrupted: a timeout while the owner's consent is read is not a refusal.
func TestPermitInterrupted(t *testing.T) {
	v := newVendor(t)
	out := filepath.Join(v.dir, "results")
	var stdout, stderr bytes.Buffer
	code := execute([]string{"run", "--inventory", v.inventory, "--scenario", "apiserver-killed", "--timeout", "1ns", "--out", out}, strings.NewReader(""), &stdout, &stderr)
	if code != exitInconclusive || !strings.Contains(stderr.String(), "context deadline exceeded") {
		t.Errorf("exit code %d, want %d, and the deadline in:\n%s%s", code, exitInconclusive, stdout.String(), stderr.String())
	}
	for _, what := range v.touched() {
		t.Errorf("touched: %s", what)
	}
}

// TestResumeChanged: a run on a cluster that was upgraded since it was planned, or installed again, is not
// resumed.
func TestResumeChanged(t *testing.T) {
	for want, answers := range map[string]map[string]string{
		"Kubernetes on cp-1 was v1.37.1 and is v1.37.4": {"/version": `{"gitVersion": "v1.37.4"}`},
		"its UID was u and is w":                        {"/api/v1/namespaces/kube-system": `{"metadata": {"uid": "w"}}`, vendorConsent: consentTo("w", "2999-01-01T00:00:00Z", "process")},
	} {
		t.Run(want, func(t *testing.T) { resumeChanged(t, answers, want) })
	}
}

func resumeChanged(t *testing.T, answers map[string]string, want string) {
	v := newVendor(t)
	spec, err := remote.Provider{}.Describe(t.Context(), v.inventory)
	if err != nil {
		t.Fatal(err)
	}
	chosen, err := run.Choose("core", []string{"apiserver-killed"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	p := run.New(remote.Provider{}, spec, chosen, 7, holdfastVersion())
	p.Attach = true
	out := t.TempDir()
	if err := errors.Join(p.Divide(remote.Provider{}, 1), p.Save(out)); err != nil {
		t.Fatal(err)
	}
	for path, body := range answers {
		v.set(path, body)
	}
	var stdout, stderr bytes.Buffer
	code := execute([]string{"run", "--resume", out}, strings.NewReader(""), &stdout, &stderr)
	if code != exitUsage || !strings.Contains(stderr.String(), want) {
		t.Errorf("exit code %d, want %d, and %q in:\n%s%s", code, exitUsage, want, stdout.String(), stderr.String())
	}
	for _, what := range v.touched() {
		t.Errorf("touched: %s", what)
	}
}

// TestResumeCertification: a certification is continued as one, or its certificate would be missing.
func TestResumeCertification(t *testing.T) {
	chosen, err := run.Choose("core", []string{"apiserver-killed"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	p := run.New(remote.Provider{}, clusters.Default(), chosen, 7, holdfastVersion())
	p.Rows = []string{"HA-EP-003"}
	out := t.TempDir()
	if err := p.Save(out); err != nil {
		t.Fatal(err)
	}
	var stdout, stderr bytes.Buffer
	code := execute([]string{"run", "--resume", out, "--dry-run"}, strings.NewReader(""), &stdout, &stderr)
	if want := "continue it with holdfast certify --resume " + out; code != exitUsage || !strings.Contains(stderr.String(), want) {
		t.Errorf("exit code %d, want %d, and %q in:\n%s%s", code, exitUsage, want, stdout.String(), stderr.String())
	}
}

// TestRefusedWithoutServer: while an API server does not run, whichever it is, a run without faults is
// planned, and one with faults is refused. Without any API server, planning fails.
func TestRefusedWithoutServer(t *testing.T) {
	const all = "cp-1 cp-2 cp-3"
	for _, stopped := range []string{"cp-1", "cp-2", all} {
		t.Run(stopped, func(t *testing.T) {
			v := newVendor(t)
			for _, node := range strings.Fields(stopped) {
				v.stop(node)
			}
			run := func(want int, says string, more ...string) {
				t.Helper()
				var stdout, stderr bytes.Buffer
				code := execute(append([]string{"run", "--inventory", v.inventory}, more...), strings.NewReader(""), &stdout, &stderr)
				if code != want || !strings.Contains(stdout.String()+stderr.String(), says) {
					t.Errorf("exit code %d, want %d, and %q in:\n%s%s", code, want, says, stdout.String(), stderr.String())
				}
			}
			if stopped == all {
				run(exitInconclusive, "failed to list the nodes", "--profile", "observe", "--dry-run")
				return
			}
			run(exitPass, "untouched", "--profile", "observe", "--dry-run")
			out := filepath.Join(v.dir, "results")
			run(exitUsage, "the API server on "+stopped+" is not ready", "--scenario", "apiserver-killed", "--out", out)
			for _, what := range v.touched() {
				t.Errorf("touched: %s", what)
			}
			if _, err := os.Stat(out); !os.IsNotExist(err) {
				t.Errorf("there is a results directory, error %v", err)
			}
		})
	}
}
