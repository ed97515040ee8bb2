package certify

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// productFile is the name of a filled-in checklist in a submission.
const productFile = "PRODUCT.yaml"

// A rule is one that a submission must keep. Each names its source: a document of the CNCF AI
// conformance programme, or this profile. What needs a network is not checked: that URLs answer, and
// that the vendor is a member of the CNCF under exactly this name.
type rule struct {
	says  string
	about subject
	check func(s *submission) []problem
}

// subject is what a rule needs to see.
type subject int

const (
	aboutMetadata subject = iota
	aboutRows
	aboutFolder
)

// submission is a folder as the rules see it.
type submission struct {
	metadata map[string]yaml.Node
	spec     map[string][]Item
	dir      string
}

// problem is a violation of a rule; path is that of the field, if it is about the metadata.
type problem struct{ path, text string }

// rules are all that a submission must keep. Of a field of the metadata only the first violation
// is reported.
var rules = []rule{
	// instructions.md (PRODUCT.yaml): the file has metadata and spec.
	{"the metadata is present", aboutMetadata, func(s *submission) []problem { return section("metadata", len(s.metadata)) }},
	{"the spec is present", aboutRows, func(s *submission) []problem { return section("spec", len(s.spec)) }},
	// instructions.md (PRODUCT.yaml) and validate.go: which fields are required. The first calls the
	// logo optional, and the programme's check requires it.
	{"required fields are not empty", aboutMetadata, eachField(" is empty", func(f field, n yaml.Node) bool {
		return f.required && (n.ShortTag() == "!!null" || n.Kind == yaml.ScalarNode && strings.TrimSpace(n.Value) == "")
	})},
	// validate.go: a version such as 1.0 that is not quoted is a number.
	{"fields are strings", aboutMetadata, eachField(" is not a string: write it in quotes", func(_ field, n yaml.Node) bool {
		return n.Kind != yaml.ScalarNode || n.ShortTag() != "!!str" && n.ShortTag() != "!!null"
	})},
	// validate.go; the checklists of the programme have such texts in brackets.
	{"no placeholder is left", aboutMetadata, eachField(": VALUE is a placeholder", func(_ field, n yaml.Node) bool {
		return strings.HasPrefix(n.Value, "[") && strings.HasSuffix(n.Value, "]")
	})},
	// instructions.md (Contents of the PR): the folder of a version has its checklists.
	{"the version is the checklist's", aboutMetadata, oneField("kubernetesVersion", ": VALUE, but the profile is for "+kubernetesVersion,
		func(value string) bool { return value != kubernetesVersion })},
	// instructions.md (PRODUCT.yaml), which also gives the form.
	{"the submission for Kubernetes conformance is named", aboutMetadata, oneField("k8sConformanceUrl",
		": VALUE is not the URL of a submission for Kubernetes conformance: want https://github.com/cncf/k8s-conformance/tree/master/vX.Y/PRODUCT",
		func(value string) bool { return !kubernetesSubmission.MatchString(value) })},
	// instructions.md (PRODUCT.yaml): URLs. That they begin with https is a rule of this profile.
	{"URLs are complete", aboutMetadata, eachField(": VALUE is not a URL that begins with https://", func(f field, n yaml.Node) bool {
		u, err := url.Parse(n.Value)
		return f.url && n.Value != "" && (err != nil || u.Scheme != "https" || u.Host == "")
	})},
	// instructions.md (PRODUCT.yaml) and the template for pull requests: formats of vector graphics.
	// validate.go: the URL itself ends with one, so that it has no query.
	{"the logo can be scaled", aboutMetadata, oneField("productLogoUrl", ": VALUE does not end with .svg, .eps or .ai", func(value string) bool {
		return !slices.ContainsFunc([]string{".svg", ".eps", ".ai"}, func(end string) bool { return strings.HasSuffix(strings.ToLower(value), end) })
	})},
	// instructions.md (PRODUCT.yaml): an email address.
	{"the contact is an address", aboutMetadata, oneField("contactEmailAddress", ": VALUE is not an email address",
		func(value string) bool { return !email.MatchString(value) })},
	// instructions.md (Requirements): id, description and level stay as the checklist has them.
	{"rows are the checklist's", aboutRows, (*submission).changedRows},
	// validate.go: the values of a status. A SHOULD row may be left open, without evidence.
	{"statuses are known", aboutRows, eachRow(func(r Item, must bool) string {
		open := r.Status == "" && (must || len(r.Evidence) == 0) // an open MUST row breaks the next rule
		if !open && !slices.Contains([]string{Implemented, NotImplemented, PartlyImplemented, NotApplicable}, r.Status) {
			return fmt.Sprintf("%s has the status %q", r.ID, r.Status)
		}
		return ""
	})},
	// validate.go: Implemented is the only status of a MUST row, so that one that does not apply,
	// for whatever reason, is refused too.
	{"required rows are implemented", aboutRows, eachRow(func(r Item, must bool) string {
		switch {
		case !must || r.Status == Implemented:
			return ""
		case r.Status == "":
			return r.ID + " is required, and the bundle does not cover it"
		case r.Status == NotApplicable:
			return fmt.Sprintf("%s is required, and does not apply to this cluster: %s", r.ID, r.Notes)
		}
		return fmt.Sprintf("%s is required: %s", r.ID, r.Notes)
	})},
	// instructions.md (Requirements): MUST rows have evidence and notes; validate.go: N/A needs them.
	{"required rows have evidence", aboutRows, eachRow(func(r Item, must bool) string {
		if must && strings.Join(r.Evidence, "") == "" {
			return r.ID + " has no evidence"
		}
		return ""
	})},
	{"notes say why", aboutRows, eachRow(func(r Item, must bool) string {
		if (must && r.Status == Implemented || r.Status == NotApplicable) && strings.TrimSpace(r.Notes) == "" {
			return r.ID + " has no notes"
		}
		return ""
	})},
	// validate.go: evidence that is not a URL is a file beside the checklist.
	{"files of evidence exist", aboutFolder, (*submission).missingEvidence},
	// docs/conformance.md (Submitting), of this profile.
	{"the reports are present", aboutFolder, func(s *submission) (problems []problem) {
		for _, name := range []string{"README.md", "results.json", "junit.xml", "report.html"} {
			if text := s.lacks(name); text != "" {
				problems = append(problems, problem{text: text})
			}
		}
		return problems
	}},
}

var (
	email                = regexp.MustCompile(`^[^@\s]+@[^@\s]+\.[^@\s]+$`)
	kubernetesSubmission = regexp.MustCompile(`^https://github\.com/cncf/k8s-conformance/tree/(?:master|main)/v[0-9]+\.[0-9]+/[^/]+/?$`)
)

// field is one of the metadata.
type field struct {
	name          string
	required, url bool
}

var fields = []field{{"kubernetesVersion", true, false}, {"platformName", true, false}, {"platformVersion", true, false}, {"vendorName", true, false},
	{"websiteUrl", true, true}, {"repoUrl", false, true}, {"documentationUrl", true, true}, {"productLogoUrl", true, true}, {"description", true, false},
	{"contactEmailAddress", true, false}, {"k8sConformanceUrl", true, true}}

// checkFolder returns what the rules refuse in a submission's folder on disk.
func checkFolder(dir string) ([]string, error) {
	text, err := os.ReadFile(filepath.Join(dir, productFile))
	if err != nil {
		return nil, err
	}
	return checkText(text, dir), nil
}

// checkText returns what the rules refuse in a checklist, and in the folder around it unless dir is
// empty.
func checkText(text []byte, dir string) (all []string) {
	s, err := readSubmission(text, dir)
	if err != nil {
		return []string{err.Error()}
	}
	last := aboutRows
	if dir != "" {
		last = aboutFolder
	}
	for _, p := range s.problems(last) {
		all = append(all, p.path+p.text)
	}
	return all
}

// readSubmission reads the checklist of a folder.
func readSubmission(text []byte, dir string) (*submission, error) {
	var file struct {
		Metadata map[string]yaml.Node `yaml:"metadata"`
		Spec     map[string][]Item    `yaml:"spec"`
	}
	if err := yaml.Unmarshal(text, &file); err != nil {
		return nil, fmt.Errorf("failed to read %s: %w", productFile, err)
	}
	return &submission{file.Metadata, file.Spec, dir}, nil
}

// problems returns what the rules up to a subject refuse.
func (s *submission) problems(last subject) (all []problem) {
	for _, r := range rules {
		if r.about > last {
			continue
		}
		for _, p := range r.check(s) {
			if p.path == "" || !slices.ContainsFunc(all, func(q problem) bool { return q.path == p.path }) {
				all = append(all, p)
			}
		}
	}
	return all
}

func section(name string, entries int) []problem {
	if entries > 0 {
		return nil
	}
	return []problem{{text: fmt.Sprintf("%s has no %s", productFile, name)}}
}

// eachField reports each field of the metadata that is bad, missing ones included, whose node is null.
// VALUE in the text stands for the field's value, quoted.
func eachField(text string, bad func(f field, n yaml.Node) bool) func(*submission) []problem {
	return func(s *submission) (problems []problem) {
		for _, f := range fields {
			n, ok := s.metadata[f.name]
			if !ok {
				n = yaml.Node{Kind: yaml.ScalarNode, Tag: "!!null"}
			}
			if bad(f, n) {
				problems = append(problems, problem{"metadata." + f.name, strings.Replace(text, "VALUE", strconv.Quote(n.Value), 1)})
			}
		}
		return problems
	}
}

// oneField is eachField for the field of that name.
func oneField(name, text string, bad func(value string) bool) func(*submission) []problem {
	return eachField(text, func(f field, n yaml.Node) bool { return f.name == name && bad(n.Value) })
}

// eachRow checks each row. Whether it is required says the profile, not the file.
func eachRow(check func(r Item, must bool) string) func(*submission) []problem {
	return func(s *submission) (problems []problem) {
		for _, area := range slices.Sorted(maps.Keys(s.spec)) {
			for _, r := range s.spec[area] {
				if text := check(r, slices.Contains(required, r.ID)); text != "" {
					problems = append(problems, problem{text: text})
				}
			}
		}
		return problems
	}
}

// changedRows finds rows that are not, or not as, in the empty checklist.
func (s *submission) changedRows() (problems []problem) {
	add := func(format string, args ...any) {
		problems = append(problems, problem{text: fmt.Sprintf(format, args...)})
	}
	left := map[string]map[string]int{} // how often an area has an ID
	for area, items := range s.spec {
		left[area] = map[string]int{}
		for _, r := range items {
			left[area][r.ID]++
		}
	}
	profile := EmptyChecklist().Spec
	for _, area := range slices.Sorted(maps.Keys(profile)) {
		for _, want := range profile[area] {
			at := slices.IndexFunc(s.spec[area], func(r Item) bool { return r.ID == want.ID })
			if at < 0 {
				add("%s has no %s in %s", productFile, want.ID, area)
				continue
			}
			left[area][want.ID]--
			if r := s.spec[area][at]; r.Description != want.Description || r.Level != want.Level {
				add("%s has another description or level than in %s", want.ID, Profile)
			}
		}
	}
	for _, area := range slices.Sorted(maps.Keys(left)) {
		for _, id := range slices.Sorted(maps.Keys(left[area])) {
			if left[area][id] > 0 {
				add("%s in %s is not a row of %s, or appears twice", id, area, Profile)
			}
		}
	}
	return problems
}

// missingEvidence finds evidence that is not in the folder.
func (s *submission) missingEvidence() (problems []problem) {
	seen := map[string]bool{}
	for _, area := range slices.Sorted(maps.Keys(s.spec)) {
		for _, r := range s.spec[area] {
			for _, name := range r.Evidence {
				if name == "" || seen[name] || strings.HasPrefix(name, "https://") || strings.HasPrefix(name, "http://") {
					continue
				}
				seen[name] = true
				if text := s.lacks(name); text != "" {
					problems = append(problems, problem{text: fmt.Sprintf("evidence of %s: %s", r.ID, text)})
				}
			}
		}
	}
	return problems
}

// lacks says why a file of the folder cannot be used, if it cannot.
func (s *submission) lacks(name string) string {
	if !filepath.IsLocal(name) {
		return fmt.Sprintf("%s is not in the folder", name)
	}
	switch info, err := os.Stat(filepath.Join(s.dir, name)); {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Sprintf("%s is missing", name)
	case err != nil:
		return err.Error()
	case !info.Mode().IsRegular() || info.Size() == 0:
		return fmt.Sprintf("%s is empty or not a file", name)
	}
	return ""
}
