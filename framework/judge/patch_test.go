package judge

import (
	"strings"
	"testing"

	"github.com/holdfast-ha/holdfast/framework/judge/internal/facts"
	"github.com/holdfast-ha/holdfast/framework/record"
)

// A patch writes whatever version exists, but only if one does.
func TestLinearizablePatch(t *testing.T) {
	const patch = record.OpPatch
	one := func() *story { return newStory().write(create, "a", "k", "v1", 1, 1, 2) }
	for _, tt := range []struct {
		name  string
		story *story
		want  Verdict
		says  string
	}{
		{"read what was patched", one().write(patch, "a", "k", "v2", 2, 3, 4).read("b", "k", "v2", 2, 5, 6), Pass, "2 acknowledged writes"},
		{"patch lost", one().write(patch, "a", "k", "v2", 2, 3, 4).read("b", "k", "v1", 1, 5, 6), Fail, `returning "v1"`},
		{"patch of what was deleted", one().read("b", "k", "v1", 1, 2.1, 2.2).write(remove, "a", "k", "", 0, 3, 4).
			write(patch, "b", "k", "v2", 2, 5, 6), Fail, `patch through b of "v2"`},
		{"update over a version that a patch replaced", one().read("b", "k", "v1", 1, 2.1, 2.2).write(patch, "a", "k", "v2", 2, 3, 4).
			write(update, "b", "k", "v3", 3, 5, 6).over(1), Fail, `update through b of "v3"`},
		{"unknown patch seen later", one().write(patch, "a", "k", "v2", 0, 3, 4).outcome(record.Unknown).
			read("b", "k", "v1", 1, 5, 6).read("b", "k", "v2", 2, 7, 8), Pass, ""},
		{"refused patch seen", one().write(patch, "a", "k", "v2", 0, 3, 4).outcome(record.Refused).read("b", "k", "v2", 2, 5, 6), Fail, ""},
		{"absent, unknown create, then patched", newStory().read("b", "k", "", 0, 0.1, 0.2).
			write(create, "a", "k", "v1", 0, 1, 2).outcome(record.Unknown).write(patch, "b", "k", "v2", 2, 3, 4), Pass, ""},
		{"absent, then patched", newStory().read("b", "k", "", 0, 0.1, 0.2).write(patch, "b", "k", "v2", 2, 3, 4), Fail, "patch through b"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := named("linearizable").Judge(&facts.Case{Run: tt.story.run})
			if f.Verdict != tt.want || !strings.Contains(f.Sentence, tt.says) {
				t.Errorf("%s (want %s): %s\nwant %s", f.Verdict, tt.want, f.Sentence, tt.says)
			}
		})
	}
}
