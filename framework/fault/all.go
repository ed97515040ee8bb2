package fault

import (
	"fmt"
	"slices"

	"github.com/holdfast-ha/holdfast/framework/nearest"
)

// All returns every built-in fault, sorted by name.
func All() []*Fault {
	return []*Fault{
		Alarm,
		Bandwidth,
		BlackHole,
		CertExpired,
		CertWrongCA,
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

// Find returns the fault with a name among the built-in ones and the caller's own. It returns an
// error if none or more than one has that name.
func Find(name string, own ...*Fault) (*Fault, error) {
	var names []string
	var found []*Fault
	for _, f := range slices.Concat(All(), own) {
		names = append(names, f.Name)
		if f.Name == name {
			found = append(found, f)
		}
	}
	switch len(found) {
	case 0:
		return nil, fmt.Errorf("%q is not a fault%s: want one of %s", name, nearest.Meant(names, name), listed(names))
	case 1:
		return found[0], nil
	}
	return nil, fmt.Errorf("two faults have the name %q", name)
}
