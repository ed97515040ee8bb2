package fault

import (
	"fmt"
	"slices"
	"strings"
)

// All returns every fault, sorted by name.
func All() []Fault {
	return []Fault{
		Alarm,
		AuthorityRotated,
		Bandwidth,
		BlackHole,
		CertExpired,
		CertWrongNames,
		ClockDrift,
		ClockJump,
		Compact,
		Corrupt,
		CPUPressure,
		CrashLoop,
		Cut,
		Defragment,
		DiskError,
		DiskFlip,
		DiskFull,
		DiskLie,
		DiskSlow,
		DiskWipe,
		DNSDead,
		DNSSlow,
		DNSWrong,
		Duplicate,
		FillQuota,
		Freeze,
		Isolate,
		IsolateEtcd,
		Kill,
		Latency,
		LeaseDelete,
		LeaseSteal,
		Loss,
		MemoryPressure,
		MoveLeader,
		Overload,
		Pause,
		PowerOff,
		Reboot,
		RemoveMember,
		Reorder,
		Reset,
		Restart,
		RestoreSnapshot,
		Split,
		Stop,
		WebhookHang,
	}
}

// ByName returns the fault of that name, and whether there is one.
func ByName(name string) (Fault, bool) {
	all := All()
	i := slices.IndexFunc(all, func(f Fault) bool { return f.Name() == name })
	if i < 0 {
		return nil, false
	}
	return all[i], true
}

// Unknown is the error for a name that no fault has.
func Unknown(name string) error {
	var names []string
	for _, f := range All() {
		names = append(names, f.Name())
	}
	return fmt.Errorf("%q is no fault: want one of %s", name, strings.Join(names, ", "))
}
