package judges

import (
	"github.com/holdfast-ha/holdfast/framework/judge/internal/facts"
	"github.com/holdfast-ha/holdfast/framework/record"
)

// holderBefore returns who held the lease before the fault, on whose node the fault
// must have been, or why that cannot be told.
func holderBefore(m *facts.Matter) (record.Lease, *Finding) {
	old, problem := anyHolderBefore(m)
	if problem == nil && facts.HolderNode(old) != m.Fault.Node() {
		problem = Inconclusive("the fault (%s) did not hit the active instance of %s, which was %s on %s",
			m.Fault.What(), m.ElectedComponent(), old.Holder, facts.HolderNode(old)).problem()
	}
	return old, problem
}

// anyHolderBefore returns who held the lease before the fault, wherever that is.
func anyHolderBefore(m *facts.Matter) (record.Lease, *Finding) {
	component := m.ElectedComponent()
	before := facts.LeaseStates(m.Run, component, 0, m.Fault.Injected.Called)
	if len(before) == 0 || before[len(before)-1].V.Holder == "" {
		return record.Lease{}, Inconclusive("the record does not show who held the lease of %q before the fault", component).problem()
	}
	return before[len(before)-1].V, nil
}

func failTwoHolders(component string, two []record.Lease) Finding {
	return Failed("%s must never have two holders: version %s of its lease was seen with %s (through %s) and with %s (through %s).",
		component, two[0].Revision, two[0].Holder, two[0].Via, two[1].Holder, two[1].Via)
}
