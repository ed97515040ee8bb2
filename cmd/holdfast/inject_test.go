package main

import (
	"strings"
	"testing"

	"github.com/holdfast-ha/holdfast/framework/fault"
)

// An injection without proof of effect is not reported as active, even without proof that it was
// undone.
func TestPrintInjection(t *testing.T) {
	effect := fault.Proof{What: "no packet came"}
	for name, x := range map[string]struct {
		entry fault.Entry
		want  string
	}{
		"undone":               {fault.Entry{Phase: fault.Unproven, Effect: effect}, "had no effect and was undone: no packet came"},
		"undone without proof": {fault.Entry{ID: "cut-1", Phase: fault.Active, Effect: effect, Healing: &fault.Proof{What: "node is off"}}, "cut-1 on node node-2 has no proof of effect: no packet came"},
		"undoing fails":        {fault.Entry{Phase: fault.Active, Effect: effect, Error: "it does not answer"}, "(it does not answer)"},
		"active":               {fault.Entry{ID: "cut-1", Phase: fault.Active, Effect: fault.Proof{Proven: true}}, "cut-1 is active on node node-2"},
	} {
		x.entry.Target.Node = "node-2"
		var out strings.Builder
		if err := printInjection(&out, x.entry); err != nil || !strings.Contains(out.String(), x.want) {
			t.Errorf("%s: %s, %v", name, &out, err)
		}
		if said := strings.Contains(out.String(), "is active"); said != x.entry.Effect.Proven {
			t.Errorf("%s: %s", name, &out)
		}
	}
}
