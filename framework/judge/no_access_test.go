package judge

import (
	"testing"

	"github.com/holdfast-ha/holdfast/framework/record"
)

// TestNoAccess checks that a judge does not apply without the access that it needs, even if the
// record seems to violate its guarantee, and that others judge as before.
func TestNoAccess(t *testing.T) {
	aboutMembers := []string{"members-follow", "snapshot-verifies", "unsafe-member-refused"}
	verdicts := func(without ...record.Access) map[string]Verdict {
		s := removed().change(func(r *record.Run) {
			r.Meta.NoAccess, r.Meta.Checks = without, []record.Check{removal}
			for _, judge := range aboutMembers {
				r.Meta.Checks = append(r.Meta.Checks, record.Check{Requirement: judge, Level: "MUST", Judge: judge, Fault: removal.Fault})
			}
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
	if all := verdicts(); all["etcd-alarms"] != Fail || all["endpoint-removed"] != Pass || all["snapshot-verifies"] != Inconclusive {
		t.Errorf("with access: %v", all)
	}
	all := verdicts(record.EtcdMembers, record.AuditLogs, record.Processes)
	for _, judge := range append(aboutMembers, "etcd-alarms", "one-leader-per-term", "one-actor", "restarts") {
		if all[judge] != NotApplicable {
			t.Errorf("without access %s is %s", judge, all[judge])
		}
	}
	if all["endpoint-removed"] != Pass {
		t.Errorf("endpoint-removed is %s", all["endpoint-removed"])
	}
}
