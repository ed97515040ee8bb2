package reports

import (
	"bytes"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/holdfast-ha/holdfast/framework/judge"
)

// SonobuoyFile is the name of the file from which Sonobuoy reads a plugin's results.
const SonobuoyFile = "sonobuoy_results.yaml"

// sonobuoyItem is a test, or a group of tests, for Sonobuoy.
type sonobuoyItem struct {
	Name    string            `yaml:"name"`
	Status  string            `yaml:"status"`
	Meta    map[string]string `yaml:"meta,omitempty"`
	Details map[string]string `yaml:"details,omitempty"`
	Items   []sonobuoyItem    `yaml:"items,omitempty"`
}

// renderSonobuoy writes an item for each requirement. Sonobuoy has passed, failed, skipped and
// unknown; unknown means inconclusive.
func renderSonobuoy(in input) ([]byte, error) {
	unknown := displayOf(judge.Inconclusive).sonobuoy
	all := sonobuoyItem{Name: "holdfast", Status: displayAt("", in.Verdict).sonobuoy, Meta: map[string]string{"type": "summary"}}
	if in.ExitCode == ExitInconclusive { // also of a certification whose rows all passed and that had a problem
		all.Status = unknown
	}
	for _, r := range in.Requirements {
		item := sonobuoyItem{Name: r.ID, Status: displayAt(r.Level, r.Verdict).sonobuoy, Details: map[string]string{
			"level": r.Level, "verdict": string(r.Verdict), "finding": OneLine(r.Sentence)}}
		if r.Bound != nil {
			item.Details["bound"] = OneLine(boundText(r.Bound))
		}
		if r.Measured != "" {
			item.Details["measured"] = OneLine(r.Measured)
		}
		all.Items = append(all.Items, item)
	}
	if problem := in.Run.Problem; problem != "" {
		all.Items = append(all.Items, sonobuoyItem{Name: checkPrefix + "problem", Status: unknown, Details: map[string]string{"finding": OneLine(problem)}})
	}
	if c := in.Run.Certificate; c != nil && c.verdict() != judge.Pass {
		all.Items = append(all.Items, sonobuoyItem{Name: "certificate", Status: displayAt("", c.verdict()).sonobuoy, Details: map[string]string{
			"finding": OneLine(c.Judgement), "open": OneLine(strings.Join(c.Open, "; "))}})
	}
	var out bytes.Buffer
	e := yaml.NewEncoder(&out)
	e.SetIndent(2)
	err := e.Encode(all)
	return out.Bytes(), err
}
