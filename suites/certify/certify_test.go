package certify

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/holdfast-ha/holdfast/clusters"
	"github.com/holdfast-ha/holdfast/clusters/local"
	"github.com/holdfast-ha/holdfast/framework/judge"
	"github.com/holdfast-ha/holdfast/framework/record"
	"github.com/holdfast-ha/holdfast/reports/bundle"
	"github.com/holdfast-ha/holdfast/scenarios"
	"github.com/holdfast-ha/holdfast/suites/run"
)

func testKey(t testing.TB) *bundle.Key {
	private, _, err := bundle.GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	key, err := bundle.ParseKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// certification is a results directory whose records are real files with hardly anything in
// them, so that every verdict is inconclusive.
type certification struct {
	dir  string
	plan *run.Plan
	tool Tool
}

func newCertification(t testing.TB, ids ...string) *certification {
	spec := clusters.Default()
	spec.SetNodes(3)
	chosen := run.InTurn(spec, Scenarios(ids), Turns, false)
	p := run.New(local.Provider{}, spec, chosen, 7, "v1")
	p.Rows = ids
	if err := p.Divide(local.Provider{}, 1); err != nil {
		t.Fatal(err)
	}
	c := &certification{dir: t.TempDir(), plan: p, tool: Tool{Version: "v1", Catalogue: scenarios.Digest(), Record: record.Version}}
	for _, s := range p.Scenarios {
		c.record(t, s, s.Metadata.Name, func(*record.Meta) {})
	}
	p.Ended = time.Now()
	if err := p.Save(c.dir); err != nil {
		t.Fatal(err)
	}
	return c
}

// record makes the record of a scenario, with one observation.
func (c *certification) record(t testing.TB, s *scenarios.Scenario, observation string, change func(*record.Meta)) {
	dir := record.Dir(c.dir, s.Metadata.Name)
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	meta := record.Meta{Run: c.plan.Run, Scenario: s.Metadata.Name, Harness: c.plan.Harness, Provider: c.plan.Provider, Checks: s.Experiment().Checks,
		Settings: map[string]time.Duration{"L": 15 * time.Second, "R": 10 * time.Second, "P": 2 * time.Second, "E": time.Second, "M": 2 * time.Second,
			"T": 15 * time.Second, "I": 10 * time.Second, "H": 3 * time.Second, "G": 40 * time.Second, "N": 5 * time.Second, "A": time.Minute},
		Versions: map[string]map[string]string{},
		Nodes:    []record.Node{{Name: "node-1", Address: "10.0.0.1"}, {Name: "node-2", Address: "10.0.0.2"}, {Name: "node-3", Address: "10.0.0.3"}}}
	for _, n := range meta.Nodes {
		meta.Versions[n.Name] = map[string]string{"kube-apiserver": c.plan.Part(s).Cluster.Spec.KubernetesVersion}
	}
	change(&meta)
	w, err := record.Create(dir, meta)
	if err != nil {
		t.Fatal(err)
	}
	// At the same time in each record, as in a copy.
	for _, err := range []error{w.Append(record.KindPhase, record.Phase{Name: observation}), w.Close(record.End{})} {
		if err != nil {
			t.Fatal(err)
		}
	}
}

// bundle signs what there is.
func (c *certification) bundle(t testing.TB, key *bundle.Key) string {
	v, err := run.Judge(c.dir)
	if err != nil {
		t.Fatal(err)
	}
	file, err := Bundle(c.dir, v, Judge(v), c.tool, key)
	if err != nil {
		t.Fatal(err)
	}
	return file
}

// forged unpacks a bundle, lets change have its files and its statement, and signs it again
// with another key.
func forged(t *testing.T, file string, change func(dir string, s *Statement)) (again string, key *bundle.Key) {
	dir := t.TempDir()
	b, err := bundle.Open(file, dir)
	if err != nil {
		t.Fatal(err)
	}
	s, err := statementOf(b)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(filepath.Join(dir, "attestations")); err != nil {
		t.Fatal(err)
	}
	change(dir, s)
	key, again = testKey(t), filepath.Join(t.TempDir(), "bundle.tar")
	if err := bundle.Write(again, dir, key, bundle.Predicate{Name: "verdicts", Type: VerdictsType, Body: s}); err != nil {
		t.Fatal(err)
	}
	return again, key
}

// A bundle as it was made holds, and says what its records say.
func TestVerify(t *testing.T) {
	c := newCertification(t, "HA-QR-005", "HA-LE-002")
	key := testKey(t)
	file := c.bundle(t, key)
	v, err := Verify(file, key, nil)
	if err != nil || !v.Holds() || !v.Trusted {
		t.Fatalf("%+v, %v", v, err)
	}
	if v.Experiments != len(c.plan.Scenarios) || v.Outcome.Certified || v.Outcome.Class != "partial" || len(v.Outcome.Rows) < 2 {
		t.Errorf("%d experiments of %d, outcome %+v", v.Experiments, len(c.plan.Scenarios), v.Outcome)
	}
	var out bytes.Buffer
	if err := v.Print(&out); err != nil || !strings.Contains(out.String(), "verified: ") || !strings.Contains(out.String(), "not certified: ") {
		t.Errorf("%v\n%s", err, &out)
	}
	if v, err = Verify(file, nil, nil); err != nil || !v.Holds() || v.Trusted {
		t.Errorf("without an expected key: %+v, %v", v, err)
	}
	if v, err = Verify(file, testKey(t), nil); err != nil || v.Holds() || !strings.Contains(v.Problems[0], "not with the expected one") {
		t.Errorf("with another expected key: %+v, %v", v, err)
	}
}

// What a vendor may do to a bundle, signing it again with a key of their own, and what the
// reader is told.
func TestVerifyForged(t *testing.T) {
	c := newCertification(t, "HA-QR-005", "HA-LE-002")
	first, second := c.plan.Scenarios[0], c.plan.Scenarios[1]
	file := c.bundle(t, testKey(t))
	// remake makes a record again, inside of an unpacked bundle.
	remake := func(dir string, s *scenarios.Scenario, observation string, change func(*record.Meta)) {
		(&certification{dir: dir, plan: c.plan}).record(t, s, observation, change)
	}
	replan := func(dir string, change func(p *run.Plan)) {
		p, err := run.Load(dir)
		if err != nil {
			t.Fatal(err)
		}
		change(p)
		if err := p.Save(dir); err != nil {
			t.Fatal(err)
		}
	}
	for name, test := range map[string]struct {
		change func(dir string, s *Statement)
		want   string
	}{
		"nothing": {func(string, *Statement) {}, ""},
		"a verdict edited": {func(_ string, s *Statement) {
			i := slices.IndexFunc(s.Verdicts, func(v Verdict) bool { return v.Requirement == "HA-QR-005" })
			s.Verdicts[i].Verdict = judge.Pass
		}, "HA-QR-005 in etcd-leader-killed-victim-1 is stated as pass, and its record gives inconclusive"},
		"a sentence edited":  {func(_ string, s *Statement) { s.Verdicts[0].Sentence = "All is well." }, `is stated as "All is well."`},
		"a verdict left out": {func(_ string, s *Statement) { s.Verdicts = s.Verdicts[1:] }, "the statement has no verdict on"},
		"a verdict invented": {func(_ string, s *Statement) {
			s.Verdicts = append(s.Verdicts, Verdict{Scenario: "x", Requirement: "HA-EP-003", Judge: "j", Verdict: judge.Pass})
		}, "the statement has a verdict on HA-EP-003 in x that no record gives"},
		"the outcome edited": {func(_ string, s *Statement) { s.Outcome.Certified = true }, "the stated outcome is"},
		"a record removed": {func(dir string, _ *Statement) { os.RemoveAll(record.Dir(dir, first.Metadata.Name)) },
			first.Metadata.Name + " has no record"},
		"an experiment copied": {func(dir string, _ *Statement) {
			os.RemoveAll(record.Dir(dir, second.Metadata.Name))
			os.CopyFS(record.Dir(dir, second.Metadata.Name), os.DirFS(record.Dir(dir, first.Metadata.Name)))
		}, "is of another scenario (" + first.Metadata.Name + ")"},
		"a record of another run": {func(dir string, _ *Statement) {
			remake(dir, second, "x", func(m *record.Meta) { m.Run = "another" })
		}, "is of another run (another)"},
		"a record of another cluster under the run's name": {func(dir string, _ *Statement) {
			remake(dir, second, "x", func(m *record.Meta) { m.Nodes[0].Address = "10.0.9.9" })
		}, "are of different clusters"},
		"a record of other nodes": {func(dir string, _ *Statement) {
			remake(dir, second, "x", func(m *record.Meta) { m.Nodes = m.Nodes[:2] })
		}, "is of a cluster with nodes node-1, node-2, and the plan's has node-1, node-2, node-3"},
		"a record of another version": {func(dir string, _ *Statement) {
			remake(dir, second, "x", func(m *record.Meta) { m.Versions["node-2"]["kube-apiserver"] = "v1.36.3" })
		}, "has API server v1.36.3 on node-2"},
		"another version stated": {func(_ string, s *Statement) { s.Versions.Kubernetes = "v1.99.0" }, "the version of Kubernetes is stated as v1.99.0"},
		"a record made later": {func(dir string, _ *Statement) {
			remake(dir, second, "x", func(*record.Meta) {})
		}, "and the run lasted from"},
		"other checks": {func(dir string, _ *Statement) {
			remake(dir, second, "x", func(m *record.Meta) {
				m.Checks = slices.Clone(m.Checks)
				m.Checks[0].Bound = "10L"
			})
		}, "asks for other checks than the catalogue"},
		"a record cut short": {func(dir string, _ *Statement) {
			path := filepath.Join(record.Dir(dir, second.Metadata.Name), record.FileName)
			if info, err := os.Stat(path); err != nil || os.Truncate(path, info.Size()-20) != nil {
				t.Fatal(err)
			}
		}, "is not whole"},
		"an experiment left out": {func(dir string, _ *Statement) {
			replan(dir, func(p *run.Plan) { p.Scenarios = p.Scenarios[1:] })
		}, "the plan lacks " + first.Metadata.Name},
		"a row added to the plan": {func(dir string, _ *Statement) {
			replan(dir, func(p *run.Plan) { p.Rows = append(p.Rows, "HA-EP-003") })
		}, "the plan lacks apiserver-killed-victim-1"},
		"no rows": {func(dir string, _ *Statement) { replan(dir, func(p *run.Plan) { p.Rows = nil }) }, "certifies nothing"},
		"a bound loosened": {func(dir string, _ *Statement) {
			replan(dir, func(p *run.Plan) { p.Scenarios[0].Spec.Requirements[0].Bound = "10L" })
		}, first.Metadata.Name + " in the plan is not as the catalogue has it"},
		"a step left out": {func(dir string, _ *Statement) {
			replan(dir, func(p *run.Plan) { p.Scenarios[0].Spec.Timeline = p.Scenarios[0].Spec.Timeline[1:] })
		}, first.Metadata.Name + " in the plan is not as the catalogue has it"},
		"a scenario excused": {func(dir string, _ *Statement) {
			replan(dir, func(p *run.Plan) {
				base := *Scenarios(p.Rows)[0]
				base.Missing, base.ByDesign = "we do not do that", true
				p.Scenarios = append([]*scenarios.Scenario{&base}, slices.DeleteFunc(p.Scenarios, func(s *scenarios.Scenario) bool { return s.Of == base.Metadata.Name })...)
			})
		}, "is left out as if the cluster were made in another way"},
		"other results": {func(dir string, _ *Statement) {
			path := filepath.Join(dir, "results.json")
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			os.WriteFile(path, bytes.ReplaceAll(text, []byte(`"inconclusive"`), []byte(`"pass"`)), 0o644)
		}, "results.json has other verdicts"},
	} {
		again, key := forged(t, file, test.change)
		v, err := Verify(again, key, nil)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if v.Holds() != (test.want == "") || !v.Holds() && !strings.Contains(strings.Join(v.Problems, "\n"), test.want) {
			t.Errorf("%s: %q, want %q", name, v.Problems, test.want)
		}
	}
	for name, change := range map[string]func(*Statement){
		"another catalogue":      func(s *Statement) { s.Tool.Catalogue = strings.Repeat("0", 64) },
		"records of an old form": func(s *Statement) { s.Tool.Record-- },
	} {
		again, key := forged(t, file, func(_ string, s *Statement) { change(s) })
		if _, err := Verify(again, key, nil); !errors.Is(err, ErrOtherRules) {
			t.Errorf("%s: %v, want a plain refusal", name, err)
		}
	}
}

// The same observations under the name of another experiment are found, whatever else was
// made to fit.
func TestVerifyCopied(t *testing.T) {
	c := newCertification(t, "HA-QR-005")
	first, second := c.plan.Scenarios[0], c.plan.Scenarios[1]
	file := c.bundle(t, testKey(t))
	again, key := forged(t, file, func(dir string, _ *Statement) {
		(&certification{dir: dir, plan: c.plan}).record(t, second, first.Metadata.Name, func(*record.Meta) {})
	})
	v, err := Verify(again, key, nil)
	if err != nil || v.Holds() || !strings.Contains(strings.Join(v.Problems, "\n"), "one is a copy of the other") {
		t.Errorf("%+v, %v", v, err)
	}
}

// What makes a row hold, and what does not.
func TestRowOf(t *testing.T) {
	base := Scenarios([]string{"HA-QR-005"})[0] // etcd-leader-killed
	turn := func(victim int, verdict judge.Verdict, hit ...string) experiment {
		return experiment{base.InTurn(victim, 3), []judge.Result{{Requirement: "HA-QR-005", Level: "MUST", Scenario: "x", Verdict: verdict, Sentence: "as it was"}}, hit}
	}
	away := func(byDesign bool) experiment {
		s := *base
		s.Missing, s.ByDesign = "x", byDesign
		return experiment{&s, []judge.Result{{Requirement: "HA-QR-005", Level: "MUST", Verdict: judge.NotApplicable, Sentence: "away"}}, nil}
	}
	nodes := []string{"node-1", "node-2", "node-3"}
	for name, test := range map[string]struct {
		all      []experiment
		verdict  judge.Verdict
		holds    bool
		sentence string
	}{
		"each node in turn": {[]experiment{turn(1, judge.Pass, "node-1"), turn(2, judge.Pass, "node-2"), turn(3, judge.Pass, "node-3")}, judge.Pass, true, "as it was"},
		"one failed":        {[]experiment{turn(1, judge.Pass, "node-1"), turn(2, judge.Fail, "node-2"), turn(3, judge.Pass, "node-3")}, judge.Fail, false, "as it was"},
		"one inconclusive":  {[]experiment{turn(1, judge.Pass, "node-1"), turn(2, judge.Inconclusive, "node-2"), turn(3, judge.Pass, "node-3")}, judge.Inconclusive, false, "as it was"},
		"one node twice":    {[]experiment{turn(1, judge.Pass, "node-1"), turn(2, judge.Pass, "node-1"), turn(3, judge.Pass, "node-3")}, judge.Inconclusive, false, "no experiment of etcd-leader-killed hit node-2"},
		"two experiments":   {[]experiment{turn(1, judge.Pass, "node-1"), turn(2, judge.Pass, "node-2", "node-3")}, judge.Inconclusive, false, "2 of at least 3"},
		"one did not apply": {[]experiment{turn(1, judge.Pass, "node-1"), turn(2, judge.NotApplicable), turn(3, judge.Pass, "node-2", "node-3")}, judge.Inconclusive, false, "2 of at least 3"},
		"cannot be tested":  {[]experiment{away(false)}, judge.NotApplicable, false, "away"},
		"by design":         {[]experiment{away(true)}, judge.NotApplicable, true, "away"},
		"none":              {nil, judge.Inconclusive, false, "no experiment"},
	} {
		r := rowOf("HA-QR-005", test.all, nodes, 3)
		if r.Verdict != test.verdict || r.holds() != test.holds || !strings.Contains(r.Sentence, test.sentence) {
			t.Errorf("%s: %+v, want %s, holds %v, %q", name, r, test.verdict, test.holds, test.sentence)
		}
	}
}

// An invariant that was violated in one experiment certifies nothing, whichever row the
// certificate is about; one that an overloaded machine hid in one of many does no harm.
func TestInvariants(t *testing.T) {
	c := newCertification(t, "HA-QR-005")
	all := func(verdicts ...judge.Verdict) (list []experiment) {
		for i, verdict := range verdicts {
			list = append(list, experiment{c.plan.Scenarios[i], []judge.Result{{Requirement: "HA-INV-002", Level: "MUST", Verdict: verdict, Sentence: "lost"}}, nil})
		}
		return list
	}
	for name, test := range map[string]struct {
		all  []experiment
		want judge.Verdict
	}{
		"kept":         {all(judge.Pass, judge.Pass, judge.Pass), judge.Pass},
		"violated":     {all(judge.Pass, judge.Pass, judge.Pass, judge.Fail), judge.Fail},
		"hidden once":  {all(judge.Pass, judge.Pass, judge.Inconclusive, judge.Pass), judge.Pass},
		"hardly seen":  {all(judge.Pass, judge.Inconclusive, judge.NotApplicable), judge.Inconclusive},
		"nothing seen": {all(judge.NotApplicable, judge.NotApplicable), ""},
	} {
		o := outcome(c.plan, test.all)
		i := slices.IndexFunc(o.Rows, func(r Row) bool { return r.ID == "HA-INV-002" })
		if got := judge.Verdict(""); i >= 0 || test.want != "" {
			if i >= 0 {
				got = o.Rows[i].Verdict
			}
			if got != test.want || o.Certified {
				t.Errorf("%s: %q, certified %v, want %q", name, got, o.Certified, test.want)
			}
		}
	}
}

func TestSelect(t *testing.T) {
	for which, want := range map[string]string{"must": "must", "conformance": "conformance", "HA-QR-005": "partial", "HA-QR-005, HA-EP-003": "partial",
		strings.Join(Required(), ","): "conformance"} {
		rows, err := Select(which)
		if err != nil || Class(rows) != want {
			t.Errorf("%s: %s, %v, want %s", which, Class(rows), err, want)
		}
	}
	for _, bad := range []string{"", "HA-QR-999", "conform"} {
		if rows, err := Select(bad); err == nil {
			t.Errorf("%q is taken as %v", bad, rows)
		}
	}
	if rows := Required(); len(rows) != 12 {
		t.Errorf("%d rows are required", len(rows))
	}
}

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
	// What must stay, or a log is of no use.
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
	for i := range c.plan.Parts {
		c.plan.Parts[i].Cluster.Spec.ExtraArgs = c.plan.Cluster.Spec.ExtraArgs
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

// searched looks for a text in all files of a bundle, decompressed, and in its statements, and
// returns them by name.
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

// What can be submitted, and what cannot.
func TestChecklist(t *testing.T) {
	product := Product{PlatformName: "P", PlatformVersion: "1", VendorName: "V", WebsiteURL: "https://example.com", DocumentationURL: "https://example.com/docs", Description: "d"}
	all := &Outcome{}
	for _, id := range Required() {
		all.Rows = append(all.Rows, Row{ID: id, Verdict: judge.Pass})
	}
	if problems := Fill(&product, all, "bundle.tar").Check(); len(problems) != 0 {
		t.Errorf("%q", problems)
	}
	for name, test := range map[string]struct {
		change func(*Product, *Outcome)
		want   string
	}{
		"a row missing":  {func(_ *Product, o *Outcome) { o.Rows = o.Rows[1:] }, "HA-CL-003 is required, and the bundle is not about it"},
		"a row failed":   {func(_ *Product, o *Outcome) { o.Rows[0].Verdict = judge.Fail }, "HA-CL-003 is required"},
		"a row excused":  {func(_ *Product, o *Outcome) { o.Rows[0].Verdict, o.Rows[0].Justified = judge.NotApplicable, true }, "does not apply to this cluster"},
		"no vendor":      {func(p *Product, _ *Outcome) { p.VendorName = "" }, "metadata.vendorName is empty"},
		"a URL in plain": {func(p *Product, _ *Outcome) { p.WebsiteURL = "http://example.com" }, "metadata.websiteUrl"},
		"an old version": {func(p *Product, _ *Outcome) { p.KubernetesVersion = "v1.20" }, "metadata.kubernetesVersion"},
		"no address":     {func(p *Product, _ *Outcome) { p.ContactEmail = "x" }, "metadata.contactEmailAddress"},
	} {
		p, o := product, &Outcome{Rows: slices.Clone(all.Rows)}
		test.change(&p, o)
		problems := slices.Concat(p.Check(), Fill(&p, o, "bundle.tar").Check())
		if !strings.Contains(strings.Join(problems, "\n"), test.want) {
			t.Errorf("%s: %q, want %q", name, problems, test.want)
		}
	}
	// A bundle in which nothing passed is refused, and leaves no folder.
	c := newCertification(t, "HA-QR-005")
	file := c.bundle(t, testKey(t))
	v, err := Verify(file, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "submission")
	if err := Submission(dir, file, &product, v); !errors.Is(err, ErrNotSubmittable) {
		t.Errorf("%v", err)
	}
	if _, err := os.Stat(dir); err == nil {
		t.Error("a submission was made")
	}
	// One with all required rows makes the folder, with the reports on its records.
	v.Outcome = all
	if err := Submission(dir, file, &product, v); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"PRODUCT.yaml", "README.md", BundleFile, "results.json", "junit.xml", "report.html"} {
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.Size() == 0 {
			t.Errorf("the submission lacks %s: %v", name, err)
		}
	}
	if text, err := os.ReadFile(filepath.Join(dir, "PRODUCT.yaml")); err != nil || strings.Count(string(text), "status: "+Implemented) != len(Required()) {
		t.Errorf("%v\n%s", err, text)
	}
	if text, err := EmptyChecklist().YAML("x"); err != nil {
		t.Error(err)
	} else if _, err := ParseProduct(text); err != nil {
		t.Errorf("the empty checklist is no product file: %v", err)
	}
	if _, err := ParseProduct([]byte("metadata: {vendor: x}")); err == nil {
		t.Error("an unknown field is taken")
	}
}
