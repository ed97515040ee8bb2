package keeper

import (
	"testing"

	"github.com/holdfast-ha/holdfast/framework"
)

// From any stage, the replacement of the CAs can be completed and undone, and two nodes are
// never more than one stage apart.
func TestPlanTrust(t *testing.T) {
	names := []string{"a", "b", "c"}
	start := map[string][2]framework.TrustStage{"a": {}, "b": {}, "c": {}}
	all, err := planTrust(names, start, false)
	if err != nil || len(all) != 9 {
		t.Fatalf("%v, %v", all, err)
	}
	walk := func(at map[string][2]framework.TrustStage, undo bool, end framework.TrustStage) {
		t.Helper()
		changes, err := planTrust(names, at, undo)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range changes {
			for _, name := range names {
				if name != c.node && (c.to-at[name][0] > 1 || at[name][1]-c.to > 1) {
					t.Fatalf("%s goes to %s while %s is at %v", c.node, c.to, name, at[name])
				}
			}
			at[c.node] = [2]framework.TrustStage{c.to, c.to}
		}
		for _, name := range names {
			if at[name] != [2]framework.TrustStage{end, end} {
				t.Fatalf("%s ends at %v", name, at[name])
			}
		}
	}
	for done := 0; done < len(all); done++ {
		for _, undo := range []bool{false, true} {
			at := map[string][2]framework.TrustStage{"a": {}, "b": {}, "c": {}}
			for _, c := range all[:done] {
				at[c.node] = [2]framework.TrustStage{c.to, c.to}
			}
			half := all[done] // interrupted
			at[half.node] = [2]framework.TrustStage{at[half.node][0], half.to}
			end := framework.TrustNew
			if undo {
				end = framework.TrustOld
			}
			walk(at, undo, end)
		}
	}
	if _, err := planTrust(names, start, true); err == nil {
		t.Error("nothing was undone")
	}
	last := [2]framework.TrustStage{framework.TrustNew, framework.TrustNew}
	if got, err := planTrust(names, map[string][2]framework.TrustStage{"a": last, "b": last, "c": last}, false); err == nil {
		t.Errorf("it was replaced twice: %v", got)
	}
}
