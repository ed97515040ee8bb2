package certify

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/judge"
	"github.com/holdfast-ha/holdfast/framework/yamlfile"
	"github.com/holdfast-ha/holdfast/reports/bundle"
	"github.com/holdfast-ha/holdfast/reports/keyless"
	"github.com/holdfast-ha/holdfast/scenarios"
	"github.com/holdfast-ha/holdfast/suites/run"
)

//go:generate go run ./profile ../../conformance/HAConformance-1.37.yaml

// kubernetesVersion is the minor version that the conformance profile is for.
const kubernetesVersion = "v1.37"

// Checklist is the conformance profile as a product fills it in. It has the form of the CNCF AI
// conformance checklists.
type Checklist struct {
	Metadata Product `yaml:"metadata"`
	// Spec are the rows by area.
	Spec map[string][]Item `yaml:"spec"`
}

// Product describes the certified product.
type Product struct {
	KubernetesVersion string `yaml:"kubernetesVersion"`
	PlatformName      string `yaml:"platformName"`
	PlatformVersion   string `yaml:"platformVersion"`
	VendorName        string `yaml:"vendorName"`
	WebsiteURL        string `yaml:"websiteUrl"`
	RepoURL           string `yaml:"repoUrl,omitempty"`
	DocumentationURL  string `yaml:"documentationUrl"`
	ProductLogoURL    string `yaml:"productLogoUrl"`
	Description       string `yaml:"description"`
	ContactEmail      string `yaml:"contactEmailAddress"`
	// K8sConformanceURL is the product's submission for Kubernetes conformance.
	K8sConformanceURL string `yaml:"k8sConformanceUrl"`
}

// Item is a row of the checklist.
type Item struct {
	ID          string   `yaml:"id"`
	Description string   `yaml:"description"`
	Level       string   `yaml:"level"`
	Status      string   `yaml:"status"`
	Evidence    []string `yaml:"evidence"`
	Notes       string   `yaml:"notes"`
}

// The possible values of an item's status. PartlyImplemented is one that no bundle leads to.
const (
	Implemented       = "Implemented"
	PartlyImplemented = "Partially Implemented"
	NotImplemented    = "Not Implemented"
	NotApplicable     = "N/A"
)

// areas are the names of the catalogue's areas in a checklist.
var areas = map[string]string{"INV": "invariants", "TOP": "topology", "QR": "quorumReads", "EP": "endpoints", "LE": "leaderElection", "CL": "clients",
	"WCH": "watches", "WL": "workloads", "MB": "membership", "UP": "upgrades", "RC": "recovery", "SEC": "security"}

// EmptyChecklist returns the conformance profile as its file has it.
func EmptyChecklist() *Checklist {
	c := &Checklist{Metadata: Product{KubernetesVersion: kubernetesVersion}, Spec: map[string][]Item{}}
	for _, r := range scenarios.Requirements() {
		level := "SHOULD" // until two independent products have used the row
		if slices.Contains(required, r.ID) {
			level = "MUST"
		}
		if r.Level == "INFO" || len(settling(r.ID, Breaking)) == 0 {
			continue
		}
		area := areas[r.Area]
		c.Spec[area] = append(c.Spec[area], Item{ID: r.ID, Description: r.Text, Level: level, Evidence: []string{}})
	}
	return c
}

// YAML writes the checklist as a file.
func (c *Checklist) YAML(comment string) ([]byte, error) {
	var out bytes.Buffer
	for line := range strings.Lines(comment) {
		fmt.Fprintf(&out, "# %s\n", strings.TrimSpace(line))
	}
	e := yaml.NewEncoder(&out)
	e.SetIndent(2)
	err := e.Encode(c)
	return out.Bytes(), err
}

// ParseProduct reads a product's own part of a checklist: a file with the metadata. Errors call it
// name, and contain the lines. The returned product passes Check.
func ParseProduct(name string, data []byte) (*Product, error) {
	var c Checklist // the spec is filled in from the bundle
	f, err := yamlfile.Decode(name, data, &c, yamlfile.Format{Want: "metadata with " + neededFields()})
	if err == nil {
		if problems := c.Metadata.Check(f.Where); len(problems) > 0 {
			err = errors.New(strings.Join(problems, "\n"))
		}
	}
	if err != nil {
		return nil, fmt.Errorf("%w\ndocs/conformance.md (Submitting) has an example of a product file", err)
	}
	return &c.Metadata, nil
}

// neededFields returns the names of what a product file must have, as text.
func neededFields() string {
	var names []string
	for _, f := range fields {
		if f.required && f.name != "kubernetesVersion" { // which Fill knows
			names = append(names, f.name)
		}
	}
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " and " + names[last]
}

// Check returns the problems of a product's description. Position returns a prefix for the
// problems of the field at a path.
func (p *Product) Check(position func(path string) string) (problems []string) {
	filled := *p
	filled.KubernetesVersion = cmp.Or(p.KubernetesVersion, kubernetesVersion)
	var node yaml.Node
	s := &submission{}
	if err := errors.Join(node.Encode(filled), node.Decode(&s.metadata)); err != nil {
		return []string{err.Error()}
	}
	for _, one := range s.problems(aboutMetadata) {
		problems = append(problems, position(one.path)+one.path+one.text)
	}
	return problems
}

// Fill returns the checklist for a product with a verified bundle, with evidence as the evidence
// of each item. Rows that the bundle does not cover have no status.
func Fill(product *Product, o *Outcome, evidence string) *Checklist {
	c := EmptyChecklist()
	c.Metadata = *product
	c.Metadata.KubernetesVersion = cmp.Or(product.KubernetesVersion, kubernetesVersion)
	for _, items := range c.Spec {
		for i := range items {
			at := slices.IndexFunc(o.Rows, func(r Row) bool { return r.ID == items[i].ID })
			if at < 0 {
				continue
			}
			r := o.Rows[at]
			items[i].Evidence, items[i].Notes = []string{evidence}, r.Sentence
			switch {
			case r.Verdict == judge.Pass:
				items[i].Status = Implemented
				for _, left := range r.LeftOut {
					items[i].Notes += " Not run: " + left
				}
			case r.Justified:
				items[i].Status = NotApplicable
			default:
				items[i].Status = NotImplemented
			}
		}
	}
	return c
}

// Submission writes the folder that a product submits: PRODUCT.yaml, README.md, the bundle, and
// results.json, junit.xml, report.html and the other reports on it, and checks it by the rules. It
// refuses a product or a bundle that cannot be submitted. The folder must not exist, and does not
// after an error.
func Submission(dir, bundleFile string, product *Product, v *Verification) error {
	name := filepath.Base(bundleFile)
	text, err := Fill(product, v.Outcome, name).YAML(Profile + ", filled in from " + name + " by holdfast certify pr.")
	if err != nil {
		return err
	}
	problems := checkText(text, "")
	if v.Outcome.Class == "observed" {
		problems = []string{"the bundle is an observation, which cannot be submitted: use a bundle from certify --rows conformance"}
	}
	if !v.Holds() {
		problems = append([]string{"the bundle is not valid: " + v.Problems[0]}, problems...)
	}
	if !strings.HasPrefix(v.Statement.Versions.Kubernetes, kubernetesVersion+".") {
		problems = append(problems, fmt.Sprintf("the cluster ran Kubernetes %s, but the profile is for %s", v.Statement.Versions.Kubernetes, kubernetesVersion))
	}
	for _, n := range v.Statement.Nodes {
		if version := n.Versions[string(framework.APIServer)]; version != v.Statement.Versions.Kubernetes && !strings.HasPrefix(version, kubernetesVersion+".") {
			problems = append(problems, fmt.Sprintf("%s ran Kubernetes %s, but the profile is for %s", n.Name, dash(version), kubernetesVersion))
		}
	}
	// Other rows than the required ones may fail. An invariant must hold, whichever rows a bundle is about.
	for _, r := range v.Outcome.Rows {
		if invariant(r.ID) && !r.holds() {
			problems = append(problems, fmt.Sprintf("%s must hold in every experiment, but is %s: %s", r.ID, r.Verdict, r.Sentence))
		}
	}
	if len(problems) > 0 {
		return notSubmittable(problems)
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		return fmt.Errorf("failed to make the submission: %w", err)
	}
	err = submit(dir, bundleFile, map[string][]byte{productFile: text, "README.md": []byte(readme(product, v, name))})
	if err == nil {
		problems, err = checkFolder(dir)
	}
	if err != nil {
		return fmt.Errorf("failed to make the submission: %w", errors.Join(err, os.RemoveAll(dir)))
	}
	if len(problems) > 0 {
		return errors.Join(notSubmittable(problems), os.RemoveAll(dir))
	}
	return nil
}

func notSubmittable(problems []string) error {
	return fmt.Errorf("%w:\n  %s", ErrNotSubmittable, strings.Join(problems, "\n  "))
}

// ErrNotSubmittable is in the error of a Submission whose checks fail.
var ErrNotSubmittable = errors.New("this cannot be submitted")

func submit(dir, bundleFile string, files map[string][]byte) error {
	for name, data := range files {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o644); err != nil {
			return err
		}
	}
	for _, suffix := range []string{"", keyless.Suffix} {
		err := link(bundleFile+suffix, filepath.Join(dir, filepath.Base(bundleFile)+suffix))
		if err != nil && (suffix == "" || !errors.Is(err, fs.ErrNotExist)) {
			return err
		}
	}
	unpacked, err := os.MkdirTemp("", "holdfast-submission-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(unpacked)
	if _, err := bundle.Open(bundleFile, unpacked); err != nil {
		return err
	}
	v, err := run.Judge(unpacked)
	if err != nil {
		return err
	}
	Judge(v) // for its reports
	return v.Write(dir)
}

func readme(p *Product, v *Verification, bundleName string) string {
	var rows bytes.Buffer
	if err := v.Outcome.Print(&rows); err != nil {
		return ""
	}
	signer, flags := ": obtain the public key (KEY.pub) from its owner", "--key KEY.pub"
	if v.Identity != "" {
		signer = fmt.Sprintf(", and with the identity %s: obtain the issuer's URL and the trusted root (FILE) from a source that you trust", v.Identity)
		flags = "--identity " + v.Identity + " --issuer URL --trusted-root FILE"
	}
	return fmt.Sprintf("# %s %s: %s\n\n%s\n\nVendor: %s, %s\n\nTested on %s.\n\nThe bundle is signed with key %s%s, not from this folder.\n\nTo reach the same table from the records in the bundle, offline, with holdfast %s:\n\n```\nholdfast verify %s %s\n```\n\n```\n%s```\n",
		p.PlatformName, p.PlatformVersion, Profile, strings.TrimSpace(p.Description), p.VendorName, p.WebsiteURL, v.cluster(), v.Key, signer, v.Statement.Tool.Version, bundleName, flags, rows.String())
}
