package record

import "slices"

// Effect is what an active fault does to its target. Judges go by effects, not by the names
// of faults.
type Effect string

// The effects of faults.
const (
	EffectDown        Effect = "down"        // processes exit and stay down until it is healed
	EffectRestarted   Effect = "restarted"   // processes exit and are started again while it is active
	EffectFrozen      Effect = "frozen"      // processes are suspended, and continue when it is healed
	EffectPower       Effect = "power"       // nodes lose power
	EffectNetwork     Effect = "network"     // packets are dropped, delayed or changed
	EffectIsolated    Effect = "isolated"    // the target reaches no peer, and no peer reaches it
	EffectPartitioned Effect = "partitioned" // some parties do not reach others
	EffectRemoved     Effect = "removed"     // an etcd member is removed from its cluster
	EffectLeadership  Effect = "leadership"  // etcd's leader changes
	EffectCompacted   Effect = "compacted"   // etcd discards revisions
	EffectRestored    Effect = "restored"    // etcd's data are replaced by older ones
	EffectAlarm       Effect = "alarm"       // etcd refuses writes
	EffectDisk        Effect = "disk"        // a disk fails, lies, is slow, full or damaged
	EffectClock       Effect = "clock"       // a wall clock is wrong
	EffectNames       Effect = "names"       // DNS answers wrongly, late or not at all
	EffectCertificate Effect = "certificate" // clients refuse a certificate
	EffectLease       Effect = "lease"       // a lease is deleted or taken over
	EffectAdmission   Effect = "admission"   // requests wait for an admission webhook
	EffectLoad        Effect = "load"        // CPU, memory or requests are scarce
)

// OnProcess are the effects on the process of a component.
var OnProcess = []Effect{EffectDown, EffectRestarted, EffectFrozen}

// Hits reports whether the fault has its effects on a component of its nodes: on the named one,
// on those in the same process, or on all if it names none.
func (f *Fault) Hits(component string) bool {
	return f.Component == "" || f.Component == component || slices.Contains(f.Group, component)
}

// Has reports whether the fault has any of some effects.
func (f *Fault) Has(any ...Effect) bool {
	return slices.ContainsFunc(f.Effects, func(e Effect) bool { return slices.Contains(any, e) })
}
