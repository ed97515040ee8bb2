package nearest

import (
	"slices"
	"testing"
)

func TestNearest(t *testing.T) {
	all := []string{"HA-QR-005", "HA-EP-003", "HA-EP-013", "RUN/harness", "HA-EP-003"}
	for _, tt := range []struct {
		want string
		near []string
	}{
		{"ha-ep-03", []string{"HA-EP-003", "HA-EP-013"}},
		{"QR-5", []string{"HA-QR-005", "HA-EP-003"}},
	} {
		if got := Names(all, tt.want, 2); !slices.Equal(got, tt.near) {
			t.Errorf("nearest to %s: %q, want %q", tt.want, got, tt.near)
		}
	}
	for _, tt := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"abc", "", 3}, {"kitten", "sitting", 3}, {"abc", "abc", 0}, {"ab", "ba", 2}} {
		if got := changes(tt.a, tt.b); got != tt.want {
			t.Errorf("%s to %s: %d changes, want %d", tt.a, tt.b, got, tt.want)
		}
	}
}

func TestMeant(t *testing.T) {
	all := []string{"kill", "isolate", "etcd", "latency"}
	for want, said := range map[string]string{
		"kil": ", did you mean kill?", "etdc": ", did you mean etcd?", "Isolate": ", did you mean isolate?",
		"explode": "", "": "", "latenzy": ", did you mean latency?", "x": "",
	} {
		if got := Meant(all, want); got != said {
			t.Errorf("%q: %q, want %q", want, got, said)
		}
	}
}
