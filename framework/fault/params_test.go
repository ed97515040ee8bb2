package fault

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

func TestParams(t *testing.T) {
	params := map[string]Param{
		"bool":     boolParam("x", "", false),
		"duration": durationParam("x", "", time.Second, 0, time.Minute),
		"share":    shareParam("x", "", 0.5),
		"int":      intParam("x", "", 3, 1, 7),
		"size":     sizeParam("x", "", 7, 1, 1<<20),
		"choice":   choiceParam("x", "", "both", "in", "out"),
	}
	for _, c := range []struct{ kind, value, want string }{
		{"bool", "", "false"}, {"bool", "true", "true"}, {"bool", "yes", "true or false"},
		{"duration", "", "1s"}, {"duration", "20ms", "20ms"}, {"duration", "-20ms", "from 0s to 1m"}, {"duration", "2m", "from 0s to 1m"}, {"duration", "20", "from 0s to 1m"},
		{"share", "", "0.5"}, {"share", "10%", "0.1"}, {"share", "0.25", "0.25"}, {"share", "130%", "above 0% up to 100%"}, {"share", "0", "above 0%"}, {"share", "-1%", "above 0% up to 100%"}, {"share", "NaN", "above 0% up to 100%"},
		{"int", "", "3"}, {"int", "7", "7"}, {"int", "8", "from 1 to 7"}, {"int", "many", "from 1 to 7"},
		{"size", "", "7"}, {"size", "512Ki", "524288"}, {"size", "1k", "1000"}, {"size", "2Mi", "from 1 to 1Mi"}, {"size", "big", "such as 10M"},
		{"choice", "", "both"}, {"choice", "out", "out"}, {"choice", "up", "one of both, in, out"},
	} {
		f := &Fault{Name: "kill", Params: []Param{params[c.kind]}}
		r, err := f.request(newFake(), Target{}, Params{TTL: ttl, Values: map[string]string{"x": c.value}})
		if err != nil {
			if !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), `fault kill: parameter x="`+c.value+`"`) {
				t.Errorf("%s %q: %v", c.kind, c.value, err)
			}
			continue
		}
		if got := r.read["x"]; fmt.Sprint(got) != c.want {
			t.Errorf("%s %q: %v, want %s", c.kind, c.value, r.read["x"], c.want)
		}
	}
}

// TestParamString: a choice lists its values, and a bool leaves them to its text.
func TestParamString(t *testing.T) {
	for want, p := range map[string]Param{
		"in is what arrives (both, in or out; default both)": choiceParam("x", "in is what arrives", "both", "in", "out"),
		"which one (a or b; default a)":                      choiceParam("x", "which one", "a", "b"),
		"true: it stays; default false":                      boolParam("x", "true: it stays", false),
		"how many: a whole number from 1 to 7; default 3":    intParam("x", "how many", 3, 1, 7),
		"a text; default none":                               textParam("x", "a text").unless("none"),
	} {
		if got := p.String(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// TestTakes: parameters that make an injection wait raise what it may take.
func TestTakes(t *testing.T) {
	for _, tc := range []struct {
		fault  *Fault
		values map[string]string
		want   time.Duration
	}{
		{Kill, nil, 0},
		{Reboot, map[string]string{"off": "3m"}, 3 * time.Minute},
		{CrashLoop, map[string]string{"after": "30s"}, time.Minute},
		{RestoreSnapshot, map[string]string{"age": "1m", "down": "20s"}, 80 * time.Second},
		{Latency, map[string]string{"delay": "20s", "jitter": "1s"}, 24 * time.Second},
		{CertExpired, nil, reloadLimit},
		{WebhookHang, map[string]string{"timeout": "30s"}, 30 * time.Second},
		{FillQuota, map[string]string{"max": "1Gi"}, 128 * time.Second},
		{Reboot, map[string]string{"off": "soon"}, 0},
	} {
		if got := tc.fault.TakesWith(tc.values); got != tc.want {
			t.Errorf("%s %v: %s, want %s", tc.fault.Name, tc.values, got, tc.want)
		}
	}
}
