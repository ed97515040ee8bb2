package certify

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-ha/holdfast/framework/judge"
	"github.com/holdfast-ha/holdfast/reports"
)

// testProduct returns a product that can be submitted.
func testProduct() Product {
	return Product{PlatformName: "P", PlatformVersion: "1", VendorName: "V", WebsiteURL: "https://example.com", DocumentationURL: "https://example.com/docs", Description: "d",
		ProductLogoURL: "https://example.com/logo.SVG", ContactEmail: "ha@example.com", K8sConformanceURL: "https://github.com/cncf/k8s-conformance/tree/master/v1.37/p"}
}

// passedAll returns the outcome of a bundle in which all required rows passed.
func passedAll() *Outcome {
	all := &Outcome{}
	for _, id := range Required() {
		all.Rows = append(all.Rows, Row{ID: id, Verdict: judge.Pass, Sentence: "it held"})
	}
	return all
}

// Valid and invalid checklists.
func TestChecklist(t *testing.T) {
	product, all := testProduct(), passedAll()
	check := func(p *Product, o *Outcome) []string {
		text, err := Fill(p, o, "bundle.tar").YAML("")
		if err != nil {
			t.Fatal(err)
		}
		return checkText(text, "")
	}
	if problems := check(&product, all); len(problems) != 0 {
		t.Errorf("%q", problems)
	}
	for name, test := range map[string]struct {
		change func(*Product, *Outcome)
		want   string
	}{
		"a row missing":  {func(_ *Product, o *Outcome) { o.Rows = o.Rows[1:] }, "HA-CL-003 is required, and the bundle does not cover it"},
		"a row failed":   {func(_ *Product, o *Outcome) { o.Rows[0].Verdict = judge.Fail }, "HA-CL-003 is required"},
		"a row excused":  {func(_ *Product, o *Outcome) { o.Rows[0].Verdict, o.Rows[0].Justified = judge.NotApplicable, true }, "does not apply to this cluster"},
		"no vendor":      {func(p *Product, _ *Outcome) { p.VendorName = "" }, "metadata.vendorName is empty"},
		"a blank name":   {func(p *Product, _ *Outcome) { p.PlatformName = "   " }, "metadata.platformName is empty"},
		"a URL in plain": {func(p *Product, _ *Outcome) { p.WebsiteURL = "http://example.com" }, "metadata.websiteUrl"},
		"an old version": {func(p *Product, _ *Outcome) { p.KubernetesVersion = "v1.20" }, "metadata.kubernetesVersion"},
		"no address":     {func(p *Product, _ *Outcome) { p.ContactEmail = "x" }, "metadata.contactEmailAddress"},
		"no contact":     {func(p *Product, _ *Outcome) { p.ContactEmail = "" }, "metadata.contactEmailAddress is empty"},
		"a repository":   {func(p *Product, _ *Outcome) { p.RepoURL = "git@example.com" }, "metadata.repoUrl"},
	} {
		p, o := product, &Outcome{Rows: slices.Clone(all.Rows)}
		test.change(&p, o)
		problems := check(&p, o)
		if !strings.Contains(strings.Join(problems, "\n"), test.want) {
			t.Errorf("%s: %q, want %q", name, problems, test.want)
		}
	}
	// The notes of a row name the scenarios that were left out.
	some := &Outcome{Rows: []Row{{ID: "HA-RC-004", Verdict: judge.Pass, Sentence: "It held.", LeftOut: []string{"power-lost: no such disks"}}}}
	recovery := Fill(&product, some, "bundle.tar").Spec["recovery"]
	at := slices.IndexFunc(recovery, func(i Item) bool { return i.ID == "HA-RC-004" })
	if want := "It held. Not run: power-lost: no such disks"; at < 0 || recovery[at].Notes != want {
		t.Errorf("%d of %+v, want the notes %q", at, recovery, want)
	}
	// Submission refuses a bundle in which nothing passed, and leaves no folder.
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
	// Neither is one left if it cannot be written.
	v.Outcome = all
	if err := Submission(dir, filepath.Join(t.TempDir(), "nowhere.tar"), &product, v); err == nil || errors.Is(err, ErrNotSubmittable) {
		t.Errorf("%v, want that it cannot be written", err)
	}
	if _, err := os.Stat(dir); err == nil {
		t.Error("a part of a submission was left")
	}
	// A bundle with all required rows makes the folder, with the reports on its records.
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
	// An invariant must hold as well; another row than the required ones may have failed.
	for name, test := range map[string]struct {
		also Row
		want string
	}{
		"an invariant that held":     {Row{ID: "HA-INV-001", Verdict: judge.Pass, Sentence: "it held"}, ""},
		"a violated invariant":       {Row{ID: "HA-INV-001", Verdict: judge.Fail, Sentence: "a stale read"}, "HA-INV-001 must hold in every experiment, but is fail: a stale read"},
		"an invariant hardly judged": {Row{ID: "HA-INV-002", Verdict: judge.Inconclusive, Sentence: "passed twice"}, "HA-INV-002 must hold in every experiment, but is inconclusive"},
		"another row that failed":    {Row{ID: "HA-MB-001", Verdict: judge.Fail, Sentence: "it did not follow"}, ""},
	} {
		v.Outcome = passedAll()
		v.Outcome.Rows = append(v.Outcome.Rows, test.also)
		err := Submission(filepath.Join(t.TempDir(), "submission"), file, &product, v)
		if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %q", name, err, test.want)
		}
	}
	v.Outcome = all
	// Each node has the profile's version.
	stated := v.Statement
	mixed := *stated
	mixed.Nodes = append(slices.Clone(stated.Nodes), reports.Node{Name: "node-4", Versions: map[string]string{"kube-apiserver": "v1.36.3"}})
	v.Statement = &mixed
	err = Submission(filepath.Join(t.TempDir(), "submission"), file, &product, v)
	if want := "node-4 ran Kubernetes v1.36.3, but the profile is for v1.37"; !errors.Is(err, ErrNotSubmittable) || !strings.Contains(err.Error(), want) {
		t.Errorf("%v, want %q", err, want)
	}
	v.Statement = stated
	// The README names the signer, and how to verify that.
	readme := func() string {
		dir := filepath.Join(t.TempDir(), "submission")
		if err := Submission(dir, file, &product, v); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(filepath.Join(dir, "README.md"))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	for _, want := range []string{v.Key + ": obtain the public key (KEY.pub) from its owner", "\nholdfast verify bundle.tar --key KEY.pub\n"} {
		if text := readme(); !strings.Contains(text, want) {
			t.Errorf("the README lacks %q:\n%s", want, text)
		}
	}
	v.Identity = "ci@example.com"
	for _, want := range []string{v.Key + ", and with the identity ci@example.com", "\nholdfast verify bundle.tar --identity ci@example.com --issuer URL --trusted-root FILE\n"} {
		if text := readme(); !strings.Contains(text, want) {
			t.Errorf("the README lacks %q:\n%s", want, text)
		}
	}
}

// Errors in a product file have a place, and say what is allowed.
func TestParseProduct(t *testing.T) {
	checklist := EmptyChecklist()
	checklist.Metadata = testProduct()
	checklist.Metadata.KubernetesVersion = "v1.37"
	text, err := checklist.YAML("x")
	if err != nil {
		t.Fatal(err)
	}
	if p, err := ParseProduct("p.yaml", text); err != nil || *p != checklist.Metadata {
		t.Errorf("a checklist as a product file is %+v, %v", p, err)
	}
	const fields = "want metadata with platformName, platformVersion, vendorName, websiteUrl, documentationUrl, productLogoUrl, description, contactEmailAddress and k8sConformanceUrl"
	for name, test := range map[string]struct {
		text string
		want []string
	}{
		"empty":           {"", []string{"p.yaml is empty: " + fields}},
		"only a comment":  {"# nothing\n", []string{"p.yaml is empty: " + fields}},
		"a text":          {"hello\n", []string{`p.yaml:1: the file is "hello": ` + fields}},
		"no YAML":         {"metadata: [", []string{"p.yaml: yaml: line 1"}},
		"a text inside":   {"metadata: hello\n", []string{`p.yaml:1: metadata is "hello": want a mapping`}},
		"unknown field":   {"metadata:\n  vendor: x\n", []string{"p.yaml:2: unknown field metadata.vendor: want one of kubernetesVersion, platformName, platformVersion, vendorName,"}},
		"unknown section": {"product: {}\n", []string{"p.yaml:1: unknown field product: want one of metadata, spec"}},
		"wrong values": {strings.NewReplacer("v1.37", "v1.36", "platformName: P", `platformName: "   "`, "  description: d\n", "").Replace(string(text)), []string{
			`p.yaml:3: metadata.kubernetesVersion: "v1.36", but the profile is for v1.37`, "p.yaml:4: metadata.platformName is empty", "p.yaml: metadata.description is empty"}},
	} {
		_, err := ParseProduct("p.yaml", []byte(test.text))
		if err == nil {
			t.Errorf("%s: it is accepted", name)
			continue
		}
		for _, want := range append(test.want, "docs/conformance.md") {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v\nwant %q", name, err, want)
			}
		}
		if got, want := strings.Count(err.Error(), "\n"), len(test.want); got != want {
			t.Errorf("%s: %d problems, want %d:\n%v", name, got, want, err)
		}
		for _, leak := range []string{"unmarshal", "struct", "certify.", "EOF"} {
			if strings.Contains(err.Error(), leak) {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}
