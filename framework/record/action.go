package record

// Action is a change that an instance of an elected component asked for, as the
// audit log of the API server that it asked has it.
//
// The instance is told by its component and its node: each controller manager and
// each scheduler has an API server of its own, to which it comes from its node's
// address. Requests that change nothing are not actions. Two kinds of them are recorded
// all the same, apart from actions (Run.Asked): the reads of its own lease by an elected
// component, with Election and the verb get, and about once a second any entry of the
// audit log, with nothing but Via and its times, which shows that the log was read.
type Action struct {
	Component string `json:"component"` // such as kube-scheduler
	// Node is the instance's. Where the address that the request came from is
	// no node's it is empty.
	Node string `json:"node,omitempty"`
	Via  string `json:"via"` // node of the API server
	// Election marks a write of the component's own lease: it was acquired,
	// renewed or given up. All others are what only the active instance may do.
	Election bool   `json:"election,omitempty"`
	Verb     string `json:"verb"` // create, update, patch, delete, deletecollection; see above for others
	// Resource is group and resource, such as "apps/deployments", or "pods" for
	// the core group.
	Resource    string `json:"resource"`
	Subresource string `json:"subresource,omitempty"`
	Namespace   string `json:"namespace,omitempty"`
	Name        string `json:"name,omitempty"`
	Code        int    `json:"code"` // HTTP status
	User        string `json:"user"`
	// Received and Completed are when the API server had the request, and had
	// answered it, by the wall clock of its node put on the record's clock. The
	// entry's own time, on the harness's clock, is never before Completed unless
	// the node's clock is ahead, and mostly less than a second after it.
	Received  Nanos `json:"received"`
	Completed Nanos `json:"completed"`
}
