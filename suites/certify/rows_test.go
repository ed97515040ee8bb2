package certify

import (
	"strings"
	"testing"
)

func TestSelect(t *testing.T) {
	for which, want := range map[string]string{"must": "must", "conformance": "conformance", "observed": "observed", "HA-QR-005": "partial", "HA-QR-005, HA-EP-003": "partial",
		strings.Join(Required(), ","): "conformance"} {
		rows, profile, err := Select(which)
		if err != nil || Class(rows, profile) != want {
			t.Errorf("%s: %s, %v, want %s", which, Class(rows, profile), err, want)
		}
	}
	for _, bad := range []string{"", "HA-QR-999", "conform", "conformance,HA-QR-005"} {
		if rows, _, err := Select(bad); err == nil {
			t.Errorf("%q is taken as %v", bad, rows)
		}
	}
	if rows := Required(); len(rows) != 12 {
		t.Errorf("%d rows are required", len(rows))
	}
	for _, s := range Scenarios(Observed(), Observing) {
		for _, step := range s.Spec.Timeline {
			if step.Inject != nil {
				t.Errorf("%s injects a fault, and is run for an observation", s.Metadata.Name)
			}
		}
	}
}
