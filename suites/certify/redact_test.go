package certify

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/holdfast-ha/holdfast/clusters"
	"github.com/holdfast-ha/holdfast/reports/bundle"
)

const marker = "hunter2marker"

func TestRedact(t *testing.T) {
	key := "-----BEGIN RSA PRIVATE KEY-----\nMIIE" + marker + "\nAAAA" + marker + "\n-----END RSA PRIVATE KEY-----\n"
	for _, secret := range []string{
		key,
		"before\n" + key + "after\n",
		strings.ReplaceAll(key, "\n", `\n`),
		"Authorization: Bearer " + marker + "abcdef",
		"authorization: basic " + marker,
		`{"password":"` + marker + `"}`,
		"--client-secret=" + marker,
		"token: " + marker,
		"  client-key-data: " + marker,
		"AWS_SECRET_ACCESS_KEY=" + marker + " started",
		`{\"token\":\"` + marker + `\"}`,
		"eyJhbGciOiJSUzI1NiJ9.eyJ" + marker + ".sig" + marker,
		"LS0tLS1CRUdJTiBSU0Eg" + marker,
	} {
		got := (&redactor{}).text(secret)
		if strings.Contains(got, marker) {
			t.Errorf("%q becomes %q", secret, got)
		}
		if strings.HasPrefix(secret, "before") && (!strings.HasPrefix(got, "before\n") || !strings.HasSuffix(got, "after\n")) {
			t.Errorf("%q becomes %q", secret, got)
		}
	}
	// A log is useless without these.
	for _, plain := range []string{
		"I1124 19:55:03 server.go:150] Version: v1.37.1",
		"--token-auth-file=/etc/tokens.csv --tls-private-key-file=/pki/apiserver.key",
		"--service-account-issuer=https://kubernetes.default.svc",
		"lease kube-system/kube-scheduler is held by node-1_0a1b2c3d",
		"updated revision tokens for secretless pods",
		"",
	} {
		if got := (&redactor{}).text(plain); got != plain {
			t.Errorf("%q becomes %q", plain, got)
		}
	}
	r := &redactor{}
	if got := r.command([]string{"holdfast", "certify", "--token", marker, "--name", "x"}); strings.Contains(fmt.Sprint(got), marker) || got[5] != "x" {
		t.Errorf("%q", got)
	}
	got := r.arguments(clusters.ExtraArgs{"kube-apiserver": {"oidc-client-secret": marker, "v": "2", "token-auth-file": "/x"}})["kube-apiserver"]
	if got["oidc-client-secret"] != redacted || got["v"] != "2" || got["token-auth-file"] != "/x" {
		t.Errorf("%v", got)
	}
}

// Secrets in arguments, in the environment and in logs are in no file of a bundle.
func TestBundleHasNoSecrets(t *testing.T) {
	t.Setenv("VENDOR_API_TOKEN", marker+"-environment")
	c := newCertification(t, "HA-QR-005")
	c.plan.Cluster.Spec.ExtraArgs = clusters.ExtraArgs{"kube-apiserver": {"oidc-client-secret": marker}}
	c.plan.Cluster.Spec.Inventory = &clusters.Inventory{Spec: clusters.InventorySpec{Kubeconfig: "/home/" + marker, SSH: []string{"-i", marker},
		Nodes: []clusters.InventoryNode{{Name: "node-1", SSH: marker + "@host"}}}}
	for i := range c.plan.Parts {
		c.plan.Parts[i].Cluster.Spec.ExtraArgs = c.plan.Cluster.Spec.ExtraArgs
		c.plan.Parts[i].Cluster.Spec.Inventory = c.plan.Cluster.Spec.Inventory
	}
	c.plan.Command = []string{"holdfast", "certify", "--password=" + marker}
	c.plan.Problem = "failed with token=" + marker
	if err := c.plan.Save(c.dir); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"logs/cluster-1/node-1/kube-apiserver.log": "begins\nAuthorization: Bearer " + marker + "\nusing " + marker + "-environment\n",
		"logs/cluster-1/node-1/audit.log":          marker + "\n",
		"logs/cluster-1/node-1/pki/ca.key":         marker + "\n",
		"kubeconfig":                               marker + "\n",
		"data-cluster-1/db":                        marker + "\n",
	} {
		path := filepath.Join(c.dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	key := testKey(t)
	file := c.bundle(t, key)
	log := searched(t, file, marker)["logs/cluster-1/node-1/kube-apiserver.log.zst"]
	if want := "begins\nAuthorization: Bearer [redacted]\nusing [redacted]\n"; log != want {
		t.Errorf("the log is %q, want %q", log, want)
	}
	if v, err := Verify(file, key, nil); err != nil || !v.Holds() {
		t.Errorf("%+v, %v", v, err)
	}
}

// searched finds the files of a bundle that contain a text, decompressed and including its
// statements, and returns them by name.
func searched(t *testing.T, file, text string) map[string]string {
	t.Helper()
	dir, files := t.TempDir(), map[string]string{}
	b, err := bundle.Open(file, dir)
	if err != nil {
		t.Fatal(err)
	}
	s, err := statementOf(b)
	if err != nil {
		t.Fatal(err)
	}
	statement, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	files["the statement"] = string(statement)
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		if err == nil && strings.HasSuffix(path, ".zst") {
			var dec *zstd.Decoder
			if dec, err = zstd.NewReader(nil); err == nil {
				data, err = dec.DecodeAll(data, nil)
				dec.Close()
			}
		}
		name, _ := filepath.Rel(dir, path)
		files[filepath.ToSlash(name)] = string(data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range files {
		if i := strings.Index(data, text); i >= 0 {
			t.Errorf("%s has a secret: %q", name, data[max(0, i-80):min(len(data), i+80)])
		}
	}
	return files
}

// The logs of kind's containers are packed once, although kind exports them under two names.
func TestLogsOnce(t *testing.T) {
	from, to := t.TempDir(), t.TempDir()
	for _, name := range []string{"kind/node/pods/etcd/0.log", "kind/node/containers/etcd.log", "other/containers/etcd.log"} {
		path := filepath.Join(from, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("line\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := newRedactor().logs(from, to); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]bool{"kind/node/pods/etcd/0.log.zst": true, "kind/node/containers": false, "other/containers/etcd.log.zst": true} {
		if _, err := os.Stat(filepath.Join(to, name)); (err == nil) != want {
			t.Errorf("%s is in the bundle: %v, want %v", name, err == nil, want)
		}
	}
}
