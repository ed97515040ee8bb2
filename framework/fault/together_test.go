package fault

import (
	"context"
	"errors"
	"testing"

	"github.com/holdfast-ha/holdfast/framework"
)

// TestUntouched: a refusal on one of several nodes leaves the others touched.
func TestUntouched(t *testing.T) {
	part := func(err error) attempt {
		return attempt{ask: func(context.Context) error { return err }, undo: func(context.Context) error { return nil }}.oneRequest()
	}
	for name, tc := range map[string]struct {
		parts []attempt
		want  bool
	}{
		"one, refused":           {[]attempt{part(framework.ErrNothingDone)}, true},
		"one, failed":            {[]attempt{part(errors.New("no answer"))}, false},
		"one of two was refused": {[]attempt{part(framework.ErrNothingDone), part(nil)}, false},
	} {
		_, err := together(Target{}, tc.parts).inject(t.Context())
		if _, untouched := errors.AsType[framework.Untouched](err); err == nil || untouched != tc.want {
			t.Errorf("%s: untouched: %t; %v", name, untouched, err)
		}
	}
}
