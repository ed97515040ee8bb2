package certify

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Each rule refuses what it is about, and nothing else does: the folder is right but for one change.
func TestRules(t *testing.T) {
	product := testProduct()
	text, err := Fill(&product, passedAll(), BundleFile).YAML("")
	if err != nil {
		t.Fatal(err)
	}
	const (
		row    = "HA-CL-003"
		should = "HA-CL-001"
	)
	product.KubernetesVersion = kubernetesVersion
	// in replaces text in PRODUCT.yaml, inRow only in the part from a row on.
	in := func(old, new string) func(string) string {
		return func(s string) string { return strings.Replace(s, old, new, 1) }
	}
	inRow := func(id, old, new string) func(string) string {
		return func(s string) string {
			before, after, _ := strings.Cut(s, "id: "+id+"\n")
			return before + "id: " + id + "\n" + strings.Replace(after, old, new, 1)
		}
	}
	broken := map[string]bool{}
	for _, test := range []struct {
		rule   string
		change func(string) string
		remove string
		want   string
	}{
		{"the metadata is present", func(s string) string { return "metadata: {}\n" + s[strings.Index(s, "spec:"):] }, "", "PRODUCT.yaml has no metadata"},
		{"the spec is present", func(s string) string { return s[:strings.Index(s, "spec:")] }, "", "PRODUCT.yaml has no spec"},
		{"required fields are not empty", in("  vendorName: V\n", ""), "", "metadata.vendorName is empty"},
		{"required fields are not empty", in("vendorName: V", "vendorName:"), "", "metadata.vendorName is empty"},
		{"required fields are not empty", in(product.K8sConformanceURL, `" "`), "", "metadata.k8sConformanceUrl is empty"},
		{"required fields are not empty", in(product.ProductLogoURL, `""`), "", "metadata.productLogoUrl is empty"},
		{"fields are strings", in(`platformVersion: "1"`, "platformVersion: 1.0"), "", "metadata.platformVersion is not a string: write it in quotes"},
		{"fields are strings", in("vendorName: V", "vendorName: [V]"), "", "metadata.vendorName is not a string"},
		{"no placeholder is left", in("platformName: P", `platformName: "[Platform Name]"`), "", `metadata.platformName: "[Platform Name]" is a placeholder`},
		{"no placeholder is left", in("  description: d\n", "  description: d\n  repoUrl: '[Repository URL]'\n"), "", "metadata.repoUrl"},
		{"the version is the checklist's", in("kubernetesVersion: v1.37", "kubernetesVersion: v1.36"), "", "metadata.kubernetesVersion"},
		{"the submission for Kubernetes conformance is named", in("tree/master/v1.37/p", "tree/master/v1.37"), "", "metadata.k8sConformanceUrl"},
		{"the submission for Kubernetes conformance is named", in("cncf/k8s-conformance", "example/k8s-conformance"), "", "metadata.k8sConformanceUrl"},
		{"URLs are complete", in("websiteUrl: https://example.com", "websiteUrl: example.com"), "", "metadata.websiteUrl"},
		{"the logo can be scaled", in("logo.SVG", "logo.png"), "", "metadata.productLogoUrl"},
		{"the logo can be scaled", in("logo.SVG", "logo.SVG?v=2"), "", `metadata.productLogoUrl: "https://example.com/logo.SVG?v=2" does not end with .svg, .eps or .ai`},
		{"the contact is an address", in("ha@example.com", "ha at example.com"), "", "metadata.contactEmailAddress"},
		{"rows are the checklist's", inRow(row, "level: MUST", "level: SHOULD"), "", row + " has another description or level"},
		{"rows are the checklist's", inRow(row, "description: When", "description: Whenever"), "", row + " has another description or level"},
		{"rows are the checklist's", in("id: "+row, "id: HA-CL-999"), "", "PRODUCT.yaml has no " + row + " in clients\nHA-CL-999 in clients is not a row of"},
		{"rows are the checklist's", in("  clients:\n", "  extra:\n    - {id: HA-XX-001}\n  clients:\n"), "", "HA-XX-001 in extra is not a row of"},
		{"statuses are known", inRow(row, "status: Implemented", "status: Done"), "", row + ` has the status "Done"` + "\n" + row + " is required"},
		{"statuses are known", inRow(should, "evidence: []", "evidence: ["+BundleFile+"]"), "", should + ` has the status ""`},
		{"required rows are implemented", inRow(row, "status: Implemented", "status: N/A"), "", row + " is required, and does not apply to this cluster: it held"},
		{"required rows are implemented", inRow(row, "status: Implemented", "status: Partially Implemented"), "", row + " is required: it held"},
		{"required rows are implemented", inRow(row, "status: Implemented", `status: ""`), "", row + " is required, and the bundle does not cover it"},
		{"required rows have evidence", inRow(row, "- "+BundleFile, `- ""`), "", row + " has no evidence"},
		{"notes say why", inRow(row, "notes: it held", `notes: ""`), "", row + " has no notes"},
		{"notes say why", inRow(should, `status: ""`, "status: N/A"), "", should + " has no notes"},
		{"files of evidence exist", nil, BundleFile, "evidence of HA-CL-003: bundle.tar is missing"},
		{"files of evidence exist", inRow(row, "- "+BundleFile, "- ../"+BundleFile), "", "evidence of HA-CL-003: ../bundle.tar is not in the folder"},
		{"the reports are present", nil, "junit.xml", "junit.xml is missing"},
	} {
		dir := t.TempDir()
		changed := string(text)
		if test.change != nil {
			changed = test.change(changed)
			if changed == string(text) {
				t.Errorf("%s, %s: nothing was changed", test.rule, test.want)
			}
		}
		for _, name := range []string{productFile, BundleFile, "README.md", "results.json", "junit.xml", "report.html"} {
			data := []byte("x")
			if name == productFile {
				data = []byte(changed)
			}
			if name == test.remove {
				continue
			}
			if err := os.WriteFile(filepath.Join(dir, name), data, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		problems, err := checkFolder(dir)
		if err != nil {
			t.Fatal(err)
		}
		got := strings.Join(problems, "\n")
		// Where a section is missing, its entries are too.
		lines := strings.Count(test.want, "\n") + 1
		if !strings.Contains(got, test.want) || len(problems) != lines && !strings.Contains(test.want, "PRODUCT.yaml has no metadata") && !strings.Contains(test.want, "has no spec") {
			t.Errorf("%s: problems\n%s\nwant %s", test.rule, got, test.want)
		}
		at := slices.IndexFunc(rules, func(r rule) bool { return r.says == test.rule })
		if at < 0 {
			t.Fatalf("%s is not a rule", test.rule)
		}
		broken[test.rule] = true
		read, err := readSubmission([]byte(changed), dir)
		if err != nil || len(rules[at].check(read)) == 0 {
			t.Errorf("%s: the rule itself finds nothing, %v", test.rule, err)
		}
	}
	for _, r := range rules {
		if !broken[r.says] {
			t.Errorf("no folder breaks the rule that %s", r.says)
		}
	}
	if _, err := checkFolder(t.TempDir()); err == nil {
		t.Error("a folder without PRODUCT.yaml is accepted")
	}
}
