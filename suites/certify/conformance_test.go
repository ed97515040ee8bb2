package certify

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-ha/holdfast/framework/judge"
)

// Valid and invalid checklists.
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
		"a row missing":  {func(_ *Product, o *Outcome) { o.Rows = o.Rows[1:] }, "HA-CL-003 is required, and the bundle does not cover it"},
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
	// A bundle with all required rows makes the folder, with the reports on its records.
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
		t.Errorf("the empty checklist cannot be read as a product file: %v", err)
	}
	if _, err := ParseProduct([]byte("metadata: {vendor: x}")); err == nil {
		t.Error("an unknown field is taken")
	}
}
