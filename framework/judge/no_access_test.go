package judge

import (
	"strings"
	"testing"

	"github.com/holdfast-ha/holdfast/framework/record"
)

// TestNoAccess checks that a judge does not apply without the access that it needs, even if the
// record seems to violate its guarantee, and that others judge as before.
func TestNoAccess(t *testing.T) {
	verdicts := func(without ...record.Access) map[string]Verdict {
		s := removed().change(func(r *record.Run) {
			r.Meta.NoAccess, r.Meta.Checks = without, []record.Check{removal}
			for i := range r.Etcd {
				r.Etcd[i].V.Alarms = []string{"NOSPACE"}
			}
		})
		all := map[string]Verdict{}
		for _, result := range Evaluate(s.run) {
			all[result.Judge] = result.Verdict
		}
		return all
	}
	if all := verdicts(); all["etcd-alarms"] != Fail || all["endpoint-removed"] != Pass {
		t.Errorf("with access: %v", all)
	}
	all := verdicts(record.EtcdMembers, record.AuditLogs, record.Processes)
	for _, judge := range []string{"etcd-alarms", "one-leader-per-term", "one-actor", "restarts"} {
		if all[judge] != NotApplicable {
			t.Errorf("without access %s is %s", judge, all[judge])
		}
	}
	if all["endpoint-removed"] != Pass {
		t.Errorf("endpoint-removed is %s", all["endpoint-removed"])
	}
}

// TestNoAccessInPart: a requirement does not pass by its other parts if one of them takes access
// that the provider does not give, and fails by them.
func TestNoAccessInPart(t *testing.T) {
	judged := func(s *story) Result {
		t.Helper()
		s.run.Meta.Checks = []record.Check{
			{Requirement: "HA-LE-010", Level: "MUST", Judge: "active-again", Fault: "steal", Bound: "L + P + M"},
			{Requirement: "HA-LE-010", Level: "MUST", Judge: "one-actor"},
		}
		return Evaluate(s.run)[0]
	}
	none := func(r *record.Run) { r.Meta.NoAccess = []record.Access{record.AuditLogs} }
	if r := judged(stolen(26)); r.Verdict != Pass {
		t.Errorf("with access: %s, %s", r.Verdict, r.Sentence)
	}
	if r := judged(stolen(26).change(none)); r.Verdict != NotApplicable || !strings.Contains(r.Sentence, "Not every part of the requirement can be tested here.") {
		t.Errorf("without access to the audit logs: %s, %s", r.Verdict, r.Sentence)
	}
	if r := judged(stolen(32).change(none)); r.Verdict != Fail {
		t.Errorf("without access, and without an active instance: %s, %s", r.Verdict, r.Sentence)
	}
}
