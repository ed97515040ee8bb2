package certify

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/holdfast-ha/holdfast/clusters"
	"github.com/holdfast-ha/holdfast/framework/record"
	"github.com/holdfast-ha/holdfast/framework/redact"
	"github.com/holdfast-ha/holdfast/reports"
	"github.com/holdfast-ha/holdfast/reports/bundle"
	"github.com/holdfast-ha/holdfast/suites/run"
)

const marker = "hunter2marker"

// forms are ways in which a text may have a secret.
func forms(secret string) []string {
	return []string{
		"token=" + secret,
		"https://root:" + secret + "@etcd.example.com:2379/health",
		"mysql://root:" + secret + "@tcp(db:3306)/kine",
		`password: "a ` + secret + `"`,
		`--token 'x ` + secret + `' --v 2`,
		`{"token": "a ` + secret + `"}`,
		`{\"token\": \"a ` + secret + `\"}`,
		"Authorization: Bearer " + secret,
		secret + "-environment",
		"Authorization: Basic " + base64.StdEncoding.EncodeToString([]byte("root:"+secret)),
		"X-Value: " + base64.StdEncoding.EncodeToString([]byte(secret+"-environment")),
	}
}

// objects are Secrets as components log them with -v=8: each is a line of its own.
func objects(secret string) []string {
	data := base64.StdEncoding.EncodeToString([]byte(secret))
	object := `{"kind":"Secret","apiVersion":"v1","metadata":{"name":"planted"},"data":{"x":"` + data + `"},"type":"Opaque"}`
	return []string{
		object,
		`I1126 12:44:41.123456 1 request.go:1212] "Response Body" body=` + strconv.Quote(object),
		`{"kind":"SecretList","items":[{"metadata":{"name":"planted"},"data":{"x":"` + data + `"}}]}`,
		`{"kind":"Secret","stringData":{"x":"a ` + secret + `"}}`,
	}
}

// shapes are what to search for to find a secret: itself, and what it looks like in base64, which
// depends on how many bytes are before it. Escaping leaves a secret of letters and digits as it is.
func shapes(secret string) []string {
	all := []string{secret}
	for before := range 3 {
		text := base64.RawStdEncoding.EncodeToString(append(make([]byte, before), secret...))
		// Without the characters that have bits of the bytes before or after it.
		all = append(all, text[(before*8+5)/6:(before+len(secret))*8/6])
	}
	return all
}

// Each shape is in the base64 of texts with the secret.
func TestShapes(t *testing.T) {
	all := shapes(marker)
	for before := range 6 {
		text := base64.StdEncoding.EncodeToString([]byte("0123456789"[:before] + marker + "-after"))
		if !slices.ContainsFunc(all[1:], func(shape string) bool { return len(shape) >= 15 && strings.Contains(text, shape) }) {
			t.Errorf("%s has none of %q", text, all)
		}
	}
}

// Secrets in arguments, in the environment, in logs, in entries of audit logs and in the error
// texts of records are in no file of a bundle, and the bundle holds. They are not in the reports
// either.
func TestBundleHasNoSecrets(t *testing.T) {
	t.Setenv("VENDOR_API_TOKEN", marker+"-environment")
	c := newCertification(t, "HA-QR-005")
	c.plan.Cluster.Spec.ExtraArgs = clusters.ExtraArgs{"kube-apiserver": {"oidc-client-secret": marker, "etcd-servers": "https://root:" + marker + "@host:2379"}}
	c.plan.Cluster.Spec.Inventory = &clusters.Inventory{Spec: clusters.InventorySpec{Kubeconfig: "/home/" + marker, SSH: []string{"-i", marker},
		LoadBalancer: clusters.InventoryBalancer{Server: "https://root:" + marker + "@balancer:6443"},
		Nodes:        []clusters.InventoryNode{{Name: "node-1", SSH: marker + "@host"}}}}
	c.plan.Cluster.Spec.Nodes[1].ExtraArgs = c.plan.Cluster.Spec.ExtraArgs // as read from an existing cluster
	for i := range c.plan.Parts {
		c.plan.Parts[i].Cluster.Spec.ExtraArgs = c.plan.Cluster.Spec.ExtraArgs
		c.plan.Parts[i].Cluster.Spec.Inventory = c.plan.Cluster.Spec.Inventory
	}
	c.plan.Command = []string{"holdfast", "certify", "--password=" + marker, "--secret=a " + marker, "--key=https://root:" + marker + "@host"}
	c.plan.Problem = "failed with token=" + marker
	for _, s := range c.plan.Scenarios {
		c.recordOf(t, s, func(*record.Meta) {}, failures(s.Metadata.Name))
	}
	c.plan.Ended = time.Now()
	if err := c.plan.Save(c.dir); err != nil {
		t.Fatal(err)
	}
	entry := `{"kind":"Event","apiVersion":"audit.k8s.io/v1","verb":"create","requestObject":` + objects(marker)[0] + `}`
	for name, text := range map[string]string{
		"logs/cluster-1/node-1/kube-apiserver.log": "begins\n" + strings.Join(append(forms(marker), objects(marker)...), "\n") + "\n" + entry + "\nusing " + marker + "-environment\n",
		"logs/cluster-1/node-1/audit.log":          entry + "\n",
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
	files := searched(t, file, marker)
	log := files["logs/cluster-1/node-1/kube-apiserver.log.zst"]
	if !strings.HasPrefix(log, "begins\ntoken=[redacted]\n") || !strings.HasSuffix(log, "\n[redacted]\nusing [redacted]\n") {
		t.Errorf("the log is %q", log)
	}
	seen := files["record/"+c.plan.Scenarios[0].Metadata.Name+"/record.jsonl.zst"]
	for _, kept := range []string{"https://[redacted]@etcd.example.com", "sha256:" + sum, `"revision":"123456"`, uid} {
		if !strings.Contains(seen, kept) {
			t.Errorf("the record lacks %s", kept)
		}
	}
	if v, err := Verify(file, key, nil); err != nil || !v.Holds() {
		t.Errorf("%+v, %v", v, err)
	}

	// Neither are they in the reports and records beside it.
	v, err := run.Judge(c.dir)
	if err != nil {
		t.Fatal(err)
	}
	Judge(v)
	if err := v.Write(c.dir); err != nil {
		t.Fatal(err)
	}
	beside := filesIn(t, c.dir, raw)
	search(t, beside, marker)
	for _, name := range []string{reports.ResultsFile, reports.HTMLFile} {
		if !strings.Contains(beside[name], "--oidc-client-secret=[redacted]") || !strings.Contains(beside[name], "--password=[redacted]") {
			t.Errorf("%s lacks the arguments or the command", name)
		}
	}
}

// What a record keeps although it looks random.
const (
	sum = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	uid = "5f3c1f0e-7d5a-4a0e-9a77-3d1f5b0c2a11"
)

// failures appends entries whose error texts have secrets, and an unhealthy baseline, which a
// verdict cites.
func failures(name string) func(*record.Writer) error {
	return func(w *record.Writer) error {
		text := strings.Join(append(forms(marker), "sha256:"+sum), ", ") + "\n" + strings.Join(objects(marker), "\n")
		var errs []error
		for kind, v := range map[record.Kind]any{
			record.KindOp:      record.Op{API: "kubernetes", Type: record.OpGet, Key: "k", Revision: "123456", Outcome: record.Unknown, Error: text},
			record.KindProbe:   record.Probe{Error: text, Again: &record.Repetition{Error: text}},
			record.KindEtcd:    record.EtcdStatus{Node: "node-1", Error: text},
			record.KindFault:   record.Fault{ID: "kill", Phase: record.FaultFailed, Error: text, Proof: text},
			record.KindSteady:  record.Steady{Phase: "before", Problems: []string{text}},
			record.KindPhase:   record.Phase{Name: name + " " + text},
			record.KindBackend: record.Backend{Error: text},
			record.KindObject:  record.Object{Kind: record.ObjectPod, Name: "x", UID: uid, Pod: &record.PodState{}},
		} {
			errs = append(errs, w.Append(kind, v))
		}
		return errors.Join(errs...)
	}
}

// searched searches the files of a bundle for a secret, decompressed and including its statements,
// and returns them by name.
func searched(t *testing.T, file, secret string) map[string]string {
	t.Helper()
	dir := t.TempDir()
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
	files := filesIn(t, dir, func(string) bool { return false })
	files["the statement"] = string(statement)
	search(t, files, secret)
	return files
}

// raw reports whether a file of a results directory is not to be published: the plan is as the
// command was, since --resume needs it, and logs are as the components write them.
func raw(name string) bool {
	top, _, _ := strings.Cut(name, "/")
	return top == "logs" || top == run.PlanFile || top == "kubeconfig" || strings.HasPrefix(top, "data-")
}

// filesIn returns the files in a directory by name, decompressed, without those to be skipped.
func filesIn(t *testing.T, dir string, skip func(name string) bool) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if name = filepath.ToSlash(name); err != nil || skip(name) {
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
		files[name] = string(data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// search finds a secret in files, in any of its shapes.
func search(t *testing.T, files map[string]string, secret string) {
	t.Helper()
	for name, data := range files {
		for _, shape := range shapes(secret) {
			if i := strings.Index(data, shape); i >= 0 {
				t.Errorf("%s has a secret: %q", name, data[max(0, i-80):min(len(data), i+80)])
			}
		}
	}
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
	if err := packLogs(&redact.Redactor{}, from, to); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]bool{"kind/node/pods/etcd/0.log.zst": true, "kind/node/containers": false, "other/containers/etcd.log.zst": true} {
		if _, err := os.Stat(filepath.Join(to, name)); (err == nil) != want {
			t.Errorf("%s is in the bundle: %v, want %v", name, err == nil, want)
		}
	}
}

// Of a long log the end is packed, from the beginning of a line.
func TestLongLog(t *testing.T) {
	from, to := t.TempDir(), t.TempDir()
	text := strings.Repeat("a line\n", logLimit/7+100) + "the last one\n"
	if err := os.WriteFile(filepath.Join(from, "etcd.log"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := packLogs(&redact.Redactor{}, from, to); err != nil {
		t.Fatal(err)
	}
	got := filesIn(t, to, func(string) bool { return false })["etcd.log.zst"]
	if !strings.HasSuffix(text, got) || !strings.HasPrefix(got, "a line\n") || len(got) > logLimit || len(got) < logLimit-7 {
		t.Errorf("%d bytes of the log are packed, beginning with %.20q", len(got), got)
	}
}
