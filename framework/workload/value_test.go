package workload

import (
	"strings"
	"testing"

	"github.com/holdfast-ha/holdfast/framework/record"
)

var number = record.Number

func TestFilled(t *testing.T) {
	for _, test := range []struct {
		name  string
		size  int
		value string
		bytes int
	}{
		{"c0-1", 0, "c0-1", 4},
		{"c0-1", 3, "c0-1", 4},
		{"c0-1", 5, "c0-1:5", 7}, // as close as possible
		{"c0-1", 4096, "c0-1:4096", 4096},
	} {
		value, text := filled(test.name, test.size)
		if value != test.value || len(text) != test.bytes || valueOf(text) != value {
			t.Errorf("%s of %d bytes: value %q, text of %d bytes, which is read as %q", test.name, test.size, value, len(text), valueOf(text))
		}
	}
	_, text := filled("c0-1", 64)
	for _, damaged := range []string{text[:63], text + "c", strings.Replace(text, "0-1c", "0-1d", 1), "x" + text, "a:b", "a:7:", ":7:aaaaa", "a:-1:"} {
		if got := valueOf(damaged); got == damaged || !strings.HasPrefix(got, "damaged ") {
			t.Errorf("%q is read as %q", damaged, got)
		}
	}
}
