package record

// Action is a change that an instance of an elected component requested, as recorded in the audit
// log of its API server.
//
// The instance is identified by its component and its node: each controller manager and each
// scheduler uses its own API server, to which it connects from its node's address. Requests that
// change nothing are not actions. Two kinds of them are recorded separately (Run.Asked): the
// reads of its own lease by an elected component, with Election and the verb get, and about once
// a second any entry of the audit log, with only Via and its times, which shows that the log was
// read.
type Action struct {
	Component string `json:"component"` // such as kube-scheduler
	// Node is the instance's node; empty if the source address of the request is not a node's.
	Node string `json:"node,omitempty"`
	Via  string `json:"via"` // node of the API server
	// Election marks a write of the component's own lease: it was acquired, renewed or released.
	// All others are actions that only the active instance may do.
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
	// Received and Completed are when the API server received the request and when it had
	// answered it, by its node's wall clock converted to the record's clock. The entry's own
	// time, on the harness's clock, is never before Completed unless the node's clock is ahead,
	// and mostly less than a second after it.
	Received  Nanos `json:"received"`
	Completed Nanos `json:"completed"`
}
