package facts

import (
	"slices"
	"strconv"
	"strings"

	"github.com/holdfast-ha/holdfast/framework/record"
)

// HasAlarm reports whether a member reported an alarm of a kind, such as NOSPACE, in etcd's
// words: "memberID:1 alarm:NOSPACE".
func HasAlarm(s record.EtcdStatus, kind string) bool {
	return slices.ContainsFunc(s.Alarms, func(alarm string) bool { return strings.HasSuffix(strings.TrimSpace(alarm), "alarm:"+kind) })
}

// OwnAlarm reports whether a member reported an alarm of a kind that names no other member: every
// member reports the alarms of all.
func OwnAlarm(s record.EtcdStatus, kind string) bool {
	s.Alarms = slices.DeleteFunc(slices.Clone(s.Alarms), func(alarm string) bool {
		_, after, named := strings.Cut(alarm, "memberID:")
		number, _, _ := strings.Cut(after, " ")
		id, err := strconv.ParseUint(number, 10, 64)
		return named && err == nil && s.Member != "" && strconv.FormatUint(id, 16) != s.Member
	})
	return HasAlarm(s, kind)
}
