package scenarios

import (
	"regexp"
	"strings"
	"testing"
)

// refersBack matches texts that depend on another row.
var refersBack = regexp.MustCompile(`^(As|Its|It|Their|They|The same|Also|Likewise)\b`)

// A requirement's text stands alone in a report, and states its bounds.
func TestTextsStandAlone(t *testing.T) {
	alone := func(text string) bool { return !refersBack.MatchString(text) && len(strings.Fields(text)) >= 6 }
	for _, text := range []string{"As HA-EP-003.", "Its address is gone within `I`, and stays away until then."} {
		if alone(text) {
			t.Errorf("passes for a text that stands alone: %s", text)
		}
	}
	for _, r := range Requirements() {
		if !alone(r.Text) {
			t.Errorf("%s does not stand alone: %s", r.ID, r.Text)
		}
		for _, s := range SettledBy(r) {
			for _, c := range s.Spec.Requirements {
				if c.ID == r.ID && c.Bound != "" && !strings.Contains(r.Text, "`"+c.Bound+"`") {
					t.Errorf("%s is judged by %s in %s, and its text does not state that: %s", r.ID, c.Bound, s.Metadata.Name, r.Text)
				}
			}
		}
	}
}
