package record

// A collection is a set of keys that only the clients in the record change, such as the registers
// of the traffic: every change of one of its keys is an Op of the record. So what lists and
// watches of a collection show can be checked against the writes.

// ListMatch is what a list requests with resourceVersion and resourceVersionMatch. See
// https://kubernetes.io/docs/reference/using-api/api-concepts/#resource-versions.
type ListMatch string

const (
	MatchUnset        ListMatch = "unset"          // the most recent state
	MatchAny          ListMatch = "any"            // resourceVersion 0: any state
	MatchNotOlderThan ListMatch = "not-older-than" // at least as new as Asked
	MatchExact        ListMatch = "exact"          // exactly the state of Asked
)

// List is one list of a collection, with all of its pages.
type List struct {
	Client     string `json:"client"`
	Entrance   string `json:"entrance"` // entrance, or node for API "etcd"
	API        string `json:"api"`      // "kubernetes" or "etcd"
	Collection string `json:"collection"`
	// Group restricts the list to the keys of one group (a label selector, or a
	// range for API "etcd"); empty for all keys of the collection.
	Group string    `json:"group,omitempty"`
	Match ListMatch `json:"match"`
	// Asked is the resourceVersion that the list requested.
	Asked string `json:"asked,omitempty"`
	// Limit is the size of a page; 0 if the list was not paged.
	Limit int `json:"limit,omitempty"`
	// Pages are the requests of the list; one if it was not paged.
	Pages []Page `json:"pages"`
	// Items are the objects of all pages, in the order received.
	Items   []Item  `json:"items,omitempty"`
	Call    Nanos   `json:"call"`
	Return  Nanos   `json:"return"`
	Outcome Outcome `json:"outcome"` // Unknown: no answer; Refused: see Status
	// Status is the HTTP status of the last page: 410 for a version, or a continuation, that is
	// no longer available.
	Status int    `json:"status,omitempty"`
	Error  string `json:"error,omitempty"`
	// Other describes a successful response that was not a list; Outcome is Unknown then.
	Other string `json:"other,omitempty"`
	// RetryAfter is as in Probe, of the last page.
	RetryAfter int    `json:"retryAfter,omitempty"`
	Purpose    string `json:"purpose,omitempty"` // as in Op
}

// Page is one request of a list.
type Page struct {
	Call   Nanos `json:"call"`
	Return Nanos `json:"return"`
	// Revision is the resourceVersion of the returned list.
	Revision string `json:"revision,omitempty"`
	Items    int    `json:"items"`
	// Remaining is how many items the server said are left; -1 if it did not say.
	Remaining int `json:"remaining"`
	// Continued reports whether there was a continuation token.
	Continued bool `json:"continued,omitempty"`
}

// Item is one object of a list.
type Item struct {
	Key      string `json:"key"`
	Value    string `json:"value,omitempty"`
	Group    string `json:"group,omitempty"`
	Revision string `json:"revision"`
}

// WatchPhase is a step in the life of a watch.
type WatchPhase string

const (
	WatchOpened  WatchPhase = "opened"  // accepted
	WatchRefused WatchPhase = "refused" // not accepted: Status or Error says why
	WatchEnded   WatchPhase = "ended"   // by either side, or with an ERROR event
)

// Watch is a step in the life of a watch.
type Watch struct {
	// ID is unique within the record.
	ID         string     `json:"id"`
	Phase      WatchPhase `json:"phase"`
	Client     string     `json:"client"`
	Entrance   string     `json:"entrance"` // entrance, or node for API "etcd"
	API        string     `json:"api"`      // "kubernetes" or "etcd"
	Collection string     `json:"collection"`
	// Key is the only key watched; empty for all of the collection or of Group.
	Key string `json:"key,omitempty"`
	// Group restricts the watch to the keys of one group (a label selector); an
	// object that leaves the group is then shown as deleted.
	Group string `json:"group,omitempty"`
	// From is the requested version: Kubernetes shows changes after it, etcd changes at and after
	// it. If empty, Kubernetes starts with the current state as added events, etcd with the next
	// change.
	From string `json:"from,omitempty"`
	// Initial requests a streaming list: added events for a state not older than From first, then a
	// bookmark with InitialEnd.
	Initial bool `json:"initial,omitempty"`
	// Bookmarks requests bookmarks (etcd: progress notifications).
	Bookmarks bool `json:"bookmarks,omitempty"`
	// Previous requests from etcd the value before each change.
	Previous bool `json:"previous,omitempty"`
	// Resumes is the ID of the watch that this one continues from: From is the last version that
	// its client saw there, or received from a list.
	Resumes string `json:"resumes,omitempty"`
	Called  Nanos  `json:"called"` // of the request
	Seen    Nanos  `json:"seen"`   // when the phase was reached
	// Server are the addresses in the certificate of the server that accepted the watch: behind a
	// balancer that passes TLS through, they identify the server.
	Server []string `json:"server,omitempty"`
	// Status is the HTTP status of a refusal, or the code of the ERROR event that ended the
	// watch; 410 also means etcd's "compacted".
	Status int `json:"status,omitempty"`
	// RetryAfter is as in Probe, of a refusal.
	RetryAfter int `json:"retryAfter,omitempty"`
	// Compacted is the version up to which etcd reported the history as gone.
	Compacted string `json:"compacted,omitempty"`
	Error     string `json:"error,omitempty"`
	// Purpose is "final-read" at the end of a watch if its client waited, after the last write of
	// the collection, until the watch had shown it, or for 10 s.
	Purpose string `json:"purpose,omitempty"`
}

// EventType is what a watch reports about a key.
type EventType string

const (
	EventAdded    EventType = "added"    // etcd: put that created the key
	EventModified EventType = "modified" // etcd: put of an existing key
	EventDeleted  EventType = "deleted"
	EventBookmark EventType = "bookmark" // etcd: progress notification
)

// Event is one message of a watch. The record has those of one watch in the order received.
type Event struct {
	Watch string    `json:"watch"` // Watch.ID
	Type  EventType `json:"type"`
	Key   string    `json:"key,omitempty"`
	Value string    `json:"value,omitempty"`
	Group string    `json:"group,omitempty"`
	// Revision is the object's resourceVersion, or the revision of etcd's event;
	// for a bookmark that up to which all events have been sent. A message without one
	// ends the watch.
	Revision string `json:"revision"`
	Seen     Nanos  `json:"seen"`
	// InitialEnd marks the bookmark that ends a streaming list's initial events.
	InitialEnd bool `json:"initialEnd,omitempty"`

	// The fields below are etcd's.

	// Batch numbers the responses of one watch: the events of one response have
	// the same.
	Batch int `json:"batch,omitempty"`
	// CreateRevision and Version are those of the key-value pair.
	CreateRevision string `json:"createRevision,omitempty"`
	Version        int64  `json:"version,omitempty"`
	// PreviousValue and PreviousRevision are those of the previous pair, if the watch requested
	// it and it existed.
	PreviousValue    string `json:"previousValue,omitempty"`
	PreviousRevision string `json:"previousRevision,omitempty"`
}
