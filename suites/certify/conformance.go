package certify

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/holdfast-ha/holdfast/framework/judge"
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
	ProductLogoURL    string `yaml:"productLogoUrl,omitempty"`
	Description       string `yaml:"description"`
	ContactEmail      string `yaml:"contactEmailAddress,omitempty"`
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

// The possible values of an item's status.
const (
	Implemented    = "Implemented"
	NotImplemented = "Not Implemented"
	NotApplicable  = "N/A"
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

// ParseProduct reads a product's own part of a checklist: a file with the metadata.
func ParseProduct(data []byte) (*Product, error) {
	var c struct {
		Metadata Product        `yaml:"metadata"`
		Spec     map[string]any `yaml:"spec"` // filled in from the bundle
	}
	d := yaml.NewDecoder(bytes.NewReader(data))
	d.KnownFields(true)
	if err := d.Decode(&c); err != nil {
		return nil, err
	}
	return &c.Metadata, nil
}

var email = regexp.MustCompile(`^[^@\s]+@[^@\s]+\.[^@\s]+$`)

// Check returns the problems of a product's description.
func (p *Product) Check() (problems []string) {
	for _, f := range []struct {
		name, value string
		url, needed bool
	}{
		{"platformName", p.PlatformName, false, true}, {"platformVersion", p.PlatformVersion, false, true}, {"vendorName", p.VendorName, false, true},
		{"websiteUrl", p.WebsiteURL, true, true}, {"documentationUrl", p.DocumentationURL, true, true}, {"description", p.Description, false, true},
		{"repoUrl", p.RepoURL, true, false}, {"productLogoUrl", p.ProductLogoURL, true, false},
	} {
		switch u, err := url.Parse(f.value); {
		case f.value == "" && f.needed:
			problems = append(problems, fmt.Sprintf("metadata.%s is empty", f.name))
		case f.url && f.value != "" && (err != nil || u.Scheme != "https" || u.Host == ""):
			problems = append(problems, fmt.Sprintf("metadata.%s: %q is not a URL that begins with https://", f.name, f.value))
		}
	}
	if p.KubernetesVersion != "" && p.KubernetesVersion != kubernetesVersion {
		problems = append(problems, fmt.Sprintf("metadata.kubernetesVersion: %q, and the profile is for %s", p.KubernetesVersion, kubernetesVersion))
	}
	if p.ContactEmail != "" && !email.MatchString(p.ContactEmail) {
		problems = append(problems, fmt.Sprintf("metadata.contactEmailAddress: %q is not an address", p.ContactEmail))
	}
	return problems
}

// Fill returns the checklist for a product with a verified bundle, with evidence as the evidence
// of each item. Rows that the bundle does not cover have no status.
func Fill(product *Product, o *Outcome, evidence string) *Checklist {
	c := EmptyChecklist()
	c.Metadata = *product
	c.Metadata.KubernetesVersion = kubernetesVersion
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
			case r.Justified:
				items[i].Status = NotApplicable
			default:
				items[i].Status = NotImplemented
			}
		}
	}
	return c
}

// Check returns the reasons why a checklist cannot be submitted.
func (c *Checklist) Check() []string {
	problems := c.Metadata.Check()
	for _, area := range slices.Sorted(maps.Keys(c.Spec)) {
		for _, item := range c.Spec[area] {
			switch {
			case item.Level != "MUST":
			case item.Status == "":
				problems = append(problems, fmt.Sprintf("%s is required, and the bundle does not cover it", item.ID))
			case item.Status == NotApplicable:
				problems = append(problems, fmt.Sprintf("%s is required, and does not apply to this cluster: %s", item.ID, item.Notes))
			case item.Status != Implemented:
				problems = append(problems, fmt.Sprintf("%s is required: %s", item.ID, item.Notes))
			case len(item.Evidence) == 0:
				problems = append(problems, fmt.Sprintf("%s has no evidence", item.ID))
			}
		}
	}
	return problems
}

// Submission writes the folder that a product submits: PRODUCT.yaml, README.md, the bundle, and
// results.json, junit.xml, report.html and the other reports on it. It refuses a product or a
// bundle that cannot be submitted. The folder must not exist.
func Submission(dir, bundleFile string, product *Product, v *Verification) error {
	name := filepath.Base(bundleFile)
	c := Fill(product, v.Outcome, name)
	problems := c.Check()
	if v.Outcome.Class == "observed" {
		problems = []string{"the bundle is an observation, which receives no mark: take one of certify --rows conformance"}
	}
	if !v.Holds() {
		problems = append([]string{"the bundle does not hold: " + v.Problems[0]}, problems...)
	}
	if !strings.HasPrefix(v.Statement.Versions.Kubernetes, kubernetesVersion+".") {
		problems = append(problems, fmt.Sprintf("the cluster ran Kubernetes %s, and the profile is for %s", v.Statement.Versions.Kubernetes, kubernetesVersion))
	}
	if len(problems) > 0 {
		return fmt.Errorf("%w:\n  %s", ErrNotSubmittable, strings.Join(problems, "\n  "))
	}
	text, err := c.YAML(Profile + ", filled in from " + name + " by holdfast certify pr.")
	if err != nil {
		return err
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		return fmt.Errorf("failed to make the submission: %w", err)
	}
	err = submit(dir, bundleFile, map[string][]byte{"PRODUCT.yaml": text, "README.md": []byte(readme(product, v, name))})
	if err != nil {
		return fmt.Errorf("failed to make the submission: %w", err)
	}
	return nil
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
	return v.Write(dir)
}

func readme(p *Product, v *Verification, bundleName string) string {
	var rows bytes.Buffer
	if err := v.Outcome.Print(&rows); err != nil {
		return ""
	}
	return fmt.Sprintf("# %s %s: %s\n\n%s\n\nVendor: %s, %s\n\nTo reach the same table from the records in the bundle, offline, with holdfast %s:\n\n```\nholdfast verify %s\n```\n\n```\n%s```\n",
		p.PlatformName, p.PlatformVersion, Profile, strings.TrimSpace(p.Description), p.VendorName, p.WebsiteURL, v.Statement.Tool.Version, bundleName, rows.String())
}
