package reports

import (
	"cmp"
	"fmt"
	"html/template"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"al.essio.dev/pkg/shellescape"

	"github.com/holdfast-ha/holdfast/framework/judge"
)

// Areas has the names of the catalogue's areas, by the middle part of an ID.
var Areas = map[string]string{
	"INV": "invariants of every run",
	"TOP": "the cluster as it stands", "QR": "quorum reads and writes", "WCH": "watches",
	"EP": "the default kubernetes service", "LE": "elected components", "CL": "clients and load balancing",
	"MB": "adding and removing replicas", "UP": "upgrades, one by one", "RC": "self-healing and recovery",
	"SEC": "trust", "WL": "workload smoke", "SOAK": "random faults",
}

// group is the set of requirements of an area, the worst first.
type group struct {
	Name string
	Rows []row
}

// row is a requirement with the reason for its verdict.
type row struct {
	Requirement
	Evidence []string
	// Drawn means that the page has a timeline of the scenario that decided.
	Drawn bool
	// Others are the scenarios that gave a result and did not decide.
	Others []string
	// Certified means that a certificate covers the requirement.
	Certified bool
}

// Opens names what the row opens to; empty if nothing.
func (r row) Opens() string {
	switch {
	case len(r.Evidence) > 0 && r.Drawn:
		return "evidence and timeline"
	case len(r.Evidence) > 0:
		return "evidence"
	case r.Drawn:
		return "timeline"
	case len(r.Others) > 0:
		return "other scenarios"
	}
	return ""
}

// areaOf returns the area of an ID such as HA-EP-003 as a heading; "Others" for a requirement
// that is not in the catalogue.
func areaOf(id string) string {
	parts := strings.Split(id, "-")
	if len(parts) == 3 && parts[0] == "HA" {
		area := cmp.Or(Areas[parts[1]], parts[1])
		return strings.ToUpper(area[:1]) + area[1:]
	}
	return "Others"
}

// groupsOf groups requirements by area: areas with the worst verdict first, then in the order of
// the catalogue's IDs.
func groupsOf(in input, reqs []Requirement) (groups []group) {
	at, c := map[string]int{}, in.Run.Certificate
	for _, r := range worstFirst(reqs) {
		area := areaOf(r.ID)
		if _, ok := at[area]; !ok {
			at[area] = len(groups)
			groups = append(groups, group{Name: area})
		}
		g := &groups[at[area]]
		others := slices.DeleteFunc(slices.Clone(r.Scenarios), func(name string) bool { return name == r.DecidedBy })
		g.Rows = append(g.Rows, row{r, evidenceOf(r, in.Results.Results), in.records[r.DecidedBy] != nil, others, c != nil && slices.Contains(c.Rows, r.ID)})
	}
	return groups
}

func evidenceOf(r Requirement, results []judge.Result) []string {
	i := slices.IndexFunc(results, func(one judge.Result) bool {
		return one.Requirement == r.ID && one.Scenario == r.DecidedBy && one.Sentence == r.Sentence
	})
	if i < 0 {
		return nil
	}
	return results[i].Evidence
}

// Headline returns the verdict of a run in a sentence. That of a certification is followed by one
// about the requirements that the certificate does not cover, if not all of them passed.
func (r *Results) Headline() string {
	if c := r.Run.Certificate; c != nil {
		return strings.TrimSpace(sentence(c.Judgement) + " " + beyond(r, c))
	}
	total := len(r.Requirements)
	var failed []string
	for _, req := range r.Requirements {
		if broken(req.Level, req.Verdict) {
			failed = append(failed, req.ID)
		}
	}
	open, away := count(r.Requirements, judge.Inconclusive), count(r.Requirements, judge.NotApplicable)
	switch {
	case total == 0:
		return "Nothing was judged."
	case len(failed) > 0:
		return fmt.Sprintf("%d of %s failed: %s.", len(failed), Plural(total, "requirement"), shortened(failed, 6))
	case open > 0:
		return fmt.Sprintf("No requirement failed, and %d of %d %s inconclusive.", open, total, verb(open, "is", "are"))
	case away == total:
		return "None of the requirements apply to this cluster."
	case away > 0:
		return fmt.Sprintf("All requirements that apply passed: %d of %d.", total-away, total)
	}
	return fmt.Sprintf("All %s passed.", Plural(total, "requirement"))
}

// beyond says which requirements that a certificate does not cover failed or are inconclusive;
// empty if none.
func beyond(r *Results, c *Certificate) string {
	var failed []string
	total, open := 0, 0
	for _, req := range r.Requirements {
		if slices.Contains(c.Rows, req.ID) {
			continue
		}
		total++
		switch {
		case broken(req.Level, req.Verdict):
			failed = append(failed, req.ID)
		case req.Verdict == judge.Inconclusive:
			open++
		}
	}
	var parts []string
	if len(failed) > 0 {
		parts = append(parts, fmt.Sprintf("%d failed (%s)", len(failed), shortened(failed, 6)))
	}
	if open > 0 {
		parts = append(parts, fmt.Sprintf("%d %s inconclusive", open, verb(open, "is", "are")))
	}
	if len(parts) == 0 {
		return ""
	}
	return fmt.Sprintf("Of %s that its experiments also judge, %s.", Plural(total, "other requirement"), strings.Join(parts, " and "))
}

func shortened(all []string, most int) string {
	if len(all) > most {
		return fmt.Sprintf("%s and %d more", strings.Join(all[:most], ", "), len(all)-most)
	}
	return strings.Join(all, ", ")
}

// reproduce returns the command that repeats the run: with its seed, and with a new results
// directory.
func reproduce(r Run) string {
	if len(r.Command) == 0 {
		return ""
	}
	words := []string{filepath.Base(r.Command[0])}
	seeded := false
	for i := 1; i < len(r.Command); i++ {
		word := r.Command[i]
		switch name, _, joined := strings.Cut(word, "="); {
		case name == "--out" || name == "--resume":
			if !joined {
				i++
			}
			continue
		case name == "--seed":
			seeded = true
		}
		words = append(words, word)
	}
	if !seeded {
		words = append(words, "--seed", strconv.FormatUint(r.Seed, 10))
	}
	return shellescape.QuoteCommand(words)
}

// unbroken is text in which words with a dash, such as options and names, break only if they are
// wider than a line.
func unbroken(s string) template.HTML {
	all := strings.Split(template.HTMLEscapeString(s), " ")
	for i, word := range all {
		if strings.Contains(word, "-") {
			all[i] = `<span class="word">` + word + "</span>"
		}
	}
	return template.HTML(strings.Join(all, " "))
}

var codeSpan = regexp.MustCompile("`([^`\n]+)`")

// prose is text with `code` marked as such.
func prose(s string) template.HTML {
	return template.HTML(codeSpan.ReplaceAllString(template.HTMLEscapeString(s), "<code>$1</code>"))
}
