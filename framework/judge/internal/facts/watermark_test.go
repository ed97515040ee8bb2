package facts

import (
	"testing"

	"github.com/holdfast-ha/holdfast/framework/record"
)

func TestWatermark(t *testing.T) {
	w := NewWatermark([]Mark[string]{
		{At: 30, Revision: 7, By: "late"}, {At: 10, Revision: 5, By: "first"}, {At: 20, Revision: 5, By: "second"}, {At: 25, Revision: 4, By: "old"},
	})
	for at, want := range map[record.Nanos]string{0: "", 10: "", 11: "first", 30: "first", 31: "late"} {
		got := ""
		if m := w.Before(at); m != nil {
			got = m.By
		}
		if got != want {
			t.Errorf("before %d: %q, want %q", at, got, want)
		}
	}
}
