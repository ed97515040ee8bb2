package certify

import (
	"strings"
	"testing"
)

func TestSelect(t *testing.T) {
	for which, want := range map[string]string{"must": "must", "conformance": "conformance", "HA-QR-005": "partial", "HA-QR-005, HA-EP-003": "partial",
		strings.Join(Required(), ","): "conformance"} {
		rows, err := Select(which)
		if err != nil || Class(rows) != want {
			t.Errorf("%s: %s, %v, want %s", which, Class(rows), err, want)
		}
	}
	for _, bad := range []string{"", "HA-QR-999", "conform"} {
		if rows, err := Select(bad); err == nil {
			t.Errorf("%q is taken as %v", bad, rows)
		}
	}
	if rows := Required(); len(rows) != 12 {
		t.Errorf("%d rows are required", len(rows))
	}
}
