package judge

import "github.com/holdfast-ha/holdfast/framework/record"

// holderBefore returns who held the lease before the fault, on whose node the fault
// must have been, or why that cannot be told.
func (m *matter) holderBefore() (record.Lease, *finding) {
	old, problem := m.anyHolderBefore()
	if problem == nil && holderNode(old) != m.fault.node() {
		f := inconclusive("the fault (%s) did not hit the active instance of %s, which was %s on %s",
			m.fault.what(), m.electedComponent(), old.Holder, holderNode(old))
		problem = &f
	}
	return old, problem
}

// anyHolderBefore returns who held the lease before the fault, wherever that is.
func (m *matter) anyHolderBefore() (record.Lease, *finding) {
	component := m.electedComponent()
	before := leaseStates(m.run, component, 0, m.fault.injected.Called)
	if len(before) == 0 || before[len(before)-1].V.Holder == "" {
		f := inconclusive("the record does not show who held the lease of %q before the fault", component)
		return record.Lease{}, &f
	}
	return before[len(before)-1].V, nil
}

func failTwoHolders(component string, two []record.Lease) finding {
	return failed("%s must never have two holders: version %s of its lease was seen with %s (through %s) and with %s (through %s).",
		component, two[0].Revision, two[0].Holder, two[0].Via, two[1].Holder, two[1].Via)
}
