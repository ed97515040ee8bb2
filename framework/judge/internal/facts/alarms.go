package facts

import (
	"slices"
	"strings"

	"github.com/holdfast-ha/holdfast/framework/record"
)

// HasAlarm reports whether a member reported an alarm of a kind, such as NOSPACE, in etcd's
// words: "memberID:1 alarm:NOSPACE".
func HasAlarm(s record.EtcdStatus, kind string) bool {
	return slices.ContainsFunc(s.Alarms, func(alarm string) bool { return strings.HasSuffix(strings.TrimSpace(alarm), "alarm:"+kind) })
}
