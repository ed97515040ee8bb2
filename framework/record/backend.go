package record

// Backend is a load balancer's view of one of its backends: at the start, whenever Up, Address or
// Since changes, when the balancer reports again after a gap, and all of them after each change of
// the set of nodes.
type Backend struct {
	Name    string `json:"name"` // mostly a node's
	Address string `json:"address,omitempty"`
	Up      bool   `json:"up"`
	// Standby reports that it is not up by design: another node has the virtual IP, and this one
	// is there to take it over.
	Standby bool `json:"standby,omitempty"`
	// Holder reports that it has the virtual IP.
	Holder bool `json:"holder,omitempty"`
	// Since is when Up last changed, according to the balancer.
	Since Nanos `json:"since,omitempty"`
	// Check is the outcome of the balancer's last check, in its own words.
	Check string `json:"check,omitempty"`
	// Asked is when the balancer was queried; its answer is from a moment between that and the
	// entry's own time. 0 in records of older versions of holdfast.
	Asked Nanos `json:"asked,omitempty"`
	// Error says why the balancer did not report; the rest is then empty.
	Error string `json:"error,omitempty"`
	// Missing says why the balancer never reports; the rest is then empty.
	Missing string `json:"missing,omitempty"`
}
