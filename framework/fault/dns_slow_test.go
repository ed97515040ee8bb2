package fault

import (
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/framework"
)

func TestDNSSlow(t *testing.T) {
	proveNames(t, DNSSlow, map[string]string{"delay": "100ms"}, framework.NameDisturbance{Delay: time.Second})
}

// DNS that is silent is not slow, unless programs do not wait for its answers anyway.
func TestLate(t *testing.T) {
	silent := framework.Lookup{Problem: "i/o timeout", Took: 2 * time.Second}
	for _, tc := range []struct {
		name  string
		delay time.Duration
		seen  framework.Lookup
		want  bool
	}{
		{"held back", 500 * time.Millisecond, framework.Lookup{Took: 510 * time.Millisecond}, true},
		{"not for as long", 500 * time.Millisecond, framework.Lookup{Took: 400 * time.Millisecond}, false},
		{"silent", 500 * time.Millisecond, silent, false},
		{"held back for longer than programs wait", 5 * time.Second, silent, true},
		{"should be held back for longer, and is not", 5 * time.Second, framework.Lookup{Took: time.Millisecond}, false},
	} {
		if got := late(tc.delay)(tc.seen); got != tc.want {
			t.Errorf("%s: %v", tc.name, got)
		}
	}
}
