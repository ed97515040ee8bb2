package certify

import (
	"bytes"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/holdfast-ha/holdfast/framework/judge"
	"github.com/holdfast-ha/holdfast/reports"
	"github.com/holdfast-ha/holdfast/reports/bundle"
	"github.com/holdfast-ha/holdfast/reports/keyless"
	"github.com/holdfast-ha/holdfast/reports/keyless/keylesstest"
	"github.com/holdfast-ha/holdfast/scenarios"
	"github.com/holdfast-ha/holdfast/suites/run"
)

// An unmodified bundle holds, and states what its records say.
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
	if len(v.Repeated) > 0 || strings.Contains(out.String(), "repeated") {
		t.Errorf("repeated: %q\n%s", v.Repeated, &out)
	}
	if v, err = Verify(file, nil, nil); err != nil || !v.Holds() || v.Trusted {
		t.Errorf("without an expected key: %+v, %v", v, err)
	}
	if v, err = Verify(file, testKey(t), nil); err != nil || v.Holds() || !strings.Contains(v.Problems[0], "not with the expected one") {
		t.Errorf("with another expected key: %+v, %v", v, err)
	}
}

// Verify names the scenarios that were repeated after they had been judged, but not those that had
// been interrupted before.
func TestVerifyRepeated(t *testing.T) {
	c := newCertification(t, "HA-QR-005")
	names := c.plan.Parts[0].Scenarios
	c.plan.Parts[0].Judging = map[string]time.Duration{names[0]: time.Second, names[2]: time.Second}
	c.plan.Parts = append(c.plan.Parts, run.Part{Name: "cluster-2", Cluster: c.plan.Parts[0].Cluster, Scenarios: names[:2], Judging: map[string]time.Duration{names[0]: time.Second}})
	if err := c.plan.Save(c.dir); err != nil {
		t.Fatal(err)
	}
	v, err := Verify(c.bundle(t, testKey(t)), nil, nil)
	if err != nil || !v.Holds() || !slices.Equal(v.Repeated, names[:1]) {
		t.Fatalf("%+v, %v", v, err)
	}
	var out bytes.Buffer
	if err := v.Print(&out); err != nil || !strings.Contains(out.String(), "\nrepeated after a first verdict: "+names[0]+"\n") {
		t.Errorf("%v\n%s", err, &out)
	}
}

// A scenario that was left out is named with its reason, in the maker's words, even if another
// one settles its rows.
func TestVerifyLeftOut(t *testing.T) {
	c := newCertificationOf(t, Breaking, 0, "HA-RC-004")
	of := c.plan.Scenarios[0].Of
	kept := *Scenarios(c.plan.Rows, Breaking)[slices.IndexFunc(Scenarios(c.plan.Rows, Breaking), func(s *scenarios.Scenario) bool { return s.Metadata.Name == of })]
	kept.Missing = "the disks\r\n\x1bcannot do\u202e that"
	c.plan.Scenarios = append([]*scenarios.Scenario{&kept}, slices.DeleteFunc(c.plan.Scenarios, func(s *scenarios.Scenario) bool { return s.Of == of })...)
	if err := c.plan.Save(c.dir); err != nil {
		t.Fatal(err)
	}
	v, err := Verify(c.bundle(t, testKey(t)), nil, nil)
	if err != nil || !v.Holds() {
		t.Fatalf("%+v, %v", v, err)
	}
	var out bytes.Buffer
	if err := v.Print(&out); err != nil || !strings.Contains(out.String(), "not run: "+of+", which settles HA-RC-004 too: the disks cannot do that") ||
		!strings.Contains(out.String(), "scenarios that could not be run: 1") {
		t.Errorf("%v\n%s", err, &out)
	}
}

// What a bundle's maker wrote cannot change what a terminal shows of the rest: each text stays in its
// line, without control characters.
func TestPrintIsPlain(t *testing.T) {
	const hostile = "a\x1b[2J\x1b[H\r\n\u0085b\u009b2K\u202e\x07 ä → z"
	const plain = "a[2J[H b2K ä → z"
	row := Row{ID: hostile, Verdict: judge.Inconclusive, Victims: []string{hostile}, LeftOut: []string{hostile + ": " + hostile}, Bound: hostile, Measured: hostile + "\t1", Sentence: hostile}
	v := &Verification{
		Statement: &Statement{Run: hostile, Provider: hostile, Versions: reports.Versions{Kubernetes: hostile, Etcd: hostile}, Tool: Tool{Version: hostile}},
		Outcome:   &Outcome{Rows: []Row{row}, Judgement: hostile},
		Problems:  []string{hostile, "  " + hostile},
	}
	var out bytes.Buffer
	if err := v.Print(&out); err != nil {
		t.Fatal(err)
	}
	text := out.String()
	if i := strings.IndexFunc(text, func(r rune) bool { return r != '\n' && unicode.IsControl(r) || r == '\u202e' }); i >= 0 {
		t.Errorf("it has %q", text[i:min(len(text), i+20)])
	}
	for _, want := range []string{"run " + plain + " with seed 0 on clusters that holdfast created (provider " + plain + "), from", "Kubernetes " + plain + ", etcd " + plain + ",", "made with holdfast " + plain + "\n",
		"not run: " + plain + ", which settles " + plain + " too: " + plain + "\n", "\n" + plain + ": " + plain + "\n" + plain + "\n", "NOT verified:\n  " + plain + "\n  " + plain + "\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	if n := strings.Count(text, "\n"); n != 12 {
		t.Errorf("%d lines, want 12:\n%s", n, text)
	}
}

// Verify accepts the identity that signed a bundle with its test result, within the reader's trusted
// root.
func TestVerifyIdentity(t *testing.T) {
	services := keylesstest.New(t)
	file := newCertification(t, "HA-QR-005").bundle(t, testKey(t))
	sign := func() error {
		return Sign(t.Context(), file, services.SigningConfig(t), keylesstest.Token("ci@example.com"))
	}
	state := func(resultType string) func() error {
		return func() error {
			p := bundle.Predicate{Name: "test-result", Type: resultType, Body: map[string]any{"result": "PASSED"}}
			return keyless.Sign(t.Context(), file, p, services.SigningConfig(t), keylesstest.Token("ci@example.com"))
		}
	}
	for name, test := range map[string]struct {
		sign     func() error
		identity string
		want     string
	}{
		"its own":                   {sign, "ci@example.com", "and by ci@example.com"},
		"another's":                 {sign, "someone@example.com", "does not show that someone@example.com"},
		"a result of its own":       {state(TestResultType), "ci@example.com", "bundle.tar.sigstore.json states a result other than the one that the records give"},
		"another kind of statement": {state(SVRType), "ci@example.com", "bundle.tar.sigstore.json states a result other than the one that the records give"},
	} {
		if err := test.sign(); err != nil {
			t.Fatal(err)
		}
		v, err := Verify(file, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		// What the reader mistypes says nothing of the bundle.
		if err := v.VerifyIdentity(file, filepath.Join(t.TempDir(), "none.json"), test.identity, keylesstest.Issuer); !errors.Is(err, keyless.ErrExpected) || !v.Holds() {
			t.Errorf("%s: without a trusted root: %v, %q", name, err, v.Problems)
		}
		if err := v.VerifyIdentity(file, services.TrustedRoot(t), test.identity, keylesstest.Issuer); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		var out bytes.Buffer
		if err := v.Print(&out); err != nil || v.Holds() != (name == "its own") || !strings.Contains(out.String(), test.want) {
			t.Errorf("%s: %v\n%s", name, err, &out)
		}
	}
	if err := Sign(t.Context(), services.TrustedRoot(t), services.SigningConfig(t), "x"); err == nil || !strings.Contains(err.Error(), "not a bundle") {
		t.Errorf("what is not a bundle: %v", err)
	}
}

// Verify checks the bundle of an observation by the rows of its profile; it cannot be submitted.
func TestVerifyObservation(t *testing.T) {
	c := newCertificationOf(t, Observing, 0, Observed()...)
	file := c.bundle(t, testKey(t))
	v, err := Verify(file, nil, nil)
	if err != nil || !v.Holds() || v.Outcome.Class != "observed" || v.Experiments != Turns {
		t.Fatalf("%+v, %v", v, err)
	}
	err = Submission(filepath.Join(t.TempDir(), "submission"), file, &Product{}, v)
	if !errors.Is(err, ErrNotSubmittable) || !strings.Contains(err.Error(), "the bundle is an observation, which cannot be submitted") {
		t.Errorf("%v, want that an observation cannot be submitted", err)
	}
	for name, test := range map[string]struct {
		change func(p *run.Plan)
		want   string
	}{
		"a row left out":          {func(p *run.Plan) { p.Rows = p.Rows[1:] }, "an observation covers all"},
		"a row that takes faults": {func(p *run.Plan) { p.Rows = append(p.Rows, "HA-UP-001") }, "an observation covers all"},
		"called a certificate":    {func(p *run.Plan) { p.Profile = Breaking }, "the plan has untouched-victim-1, which the rows do not need"},
	} {
		again, key := forged(t, file, func(dir string, _ *Statement) {
			p, err := run.Load(dir)
			if err != nil {
				t.Fatal(err)
			}
			test.change(p)
			if err := p.Save(dir); err != nil {
				t.Fatal(err)
			}
		})
		if v, err := Verify(again, key, nil); err != nil || !strings.Contains(strings.Join(v.Problems, "\n"), test.want) {
			t.Errorf("%s: %+v, %v; want %q", name, v, err, test.want)
		}
	}
}
