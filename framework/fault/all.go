package fault

import "slices"

// All returns every fault, sorted by name.
func All() []Fault {
	return []Fault{DiskError, DiskFlip, DiskFull, DiskLie, DiskSlow, DiskWipe, Freeze, Isolate, IsolateEtcd, Kill, MoveLeader, PowerOff, Stop}
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
