package record

// A collection is a set of keys that no client changes but the clients in the
// record, such as the registers of the traffic: every change of one of its keys is
// an Op of the record. What lists and watches of a collection show can therefore be
// held against the writes.

// ListMatch is what a list asks for by resourceVersion and resourceVersionMatch.
// See https://kubernetes.io/docs/reference/using-api/api-concepts/#resource-versions.
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
	// Asked is the resourceVersion that the list asked for.
	Asked string `json:"asked,omitempty"`
	// Limit is the size of a page; 0 where the list was not paged.
	Limit int `json:"limit,omitempty"`
	// Pages are the requests that it took, one for a list that was not paged.
	Pages []Page `json:"pages"`
	// Items are the objects of all pages, in the order in which they came.
	Items   []Item  `json:"items,omitempty"`
	Call    Nanos   `json:"call"`
	Return  Nanos   `json:"return"`
	Outcome Outcome `json:"outcome"` // Unknown: no answer; Refused: see Status
	// Status is the HTTP status of the last page: 410 for a version, or a
	// continuation, that is no longer to be had.
	Status  int    `json:"status,omitempty"`
	Error   string `json:"error,omitempty"`
	Purpose string `json:"purpose,omitempty"` // as in Op
}

// Page is one request of a list.
type Page struct {
	Call   Nanos `json:"call"`
	Return Nanos `json:"return"`
	// Revision is the resourceVersion of the list that came back.
	Revision string `json:"revision,omitempty"`
	Items    int    `json:"items"`
	// Remaining is what the server said is left; -1 where it did not say.
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
	// ID is the watch's own within the record.
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
	// From is the version asked for: Kubernetes shows what came after it, etcd
	// what came at it and after it. Empty: Kubernetes begins with the present
	// state as added events, etcd with the next change.
	From string `json:"from,omitempty"`
	// Initial asks for a streaming list: added events for the state first, then
	// a bookmark with InitialEnd.
	Initial bool `json:"initial,omitempty"`
	// Bookmarks asks for bookmarks (etcd: progress notifications).
	Bookmarks bool `json:"bookmarks,omitempty"`
	// Previous asks etcd for the value before each change.
	Previous bool `json:"previous,omitempty"`
	// Resumes is the ID of the watch that this one continues from: From is the
	// last version that its client saw there, or had from a list.
	Resumes string `json:"resumes,omitempty"`
	Called  Nanos  `json:"called"` // of the request
	Seen    Nanos  `json:"seen"`   // when the phase was reached
	// Server are the addresses on the certificate of the server that accepted the
	// watch: with a balancer that passes TLS on, they tell which one it was.
	Server []string `json:"server,omitempty"`
	// Status is the HTTP status of a refusal, or the code of the ERROR event
	// that ended the watch; 410 also stands for etcd's "compacted".
	Status int `json:"status,omitempty"`
	// Compacted is the version up to which etcd said that history is gone.
	Compacted string `json:"compacted,omitempty"`
	Error     string `json:"error,omitempty"`
	// Purpose is "final-read" at the end of a watch whose client, after the last
	// write of the collection, waited until the watch had shown it, or for 10 s.
	Purpose string `json:"purpose,omitempty"`
}

// EventType is what a watch says of a key.
type EventType string

const (
	EventAdded    EventType = "added"    // etcd: put that created the key
	EventModified EventType = "modified" // etcd: put of a key that was there
	EventDeleted  EventType = "deleted"
	EventBookmark EventType = "bookmark" // etcd: progress notification
)

// Event is one message of a watch. Those of one watch are in the record in the
// order in which they came.
type Event struct {
	Watch string    `json:"watch"` // Watch.ID
	Type  EventType `json:"type"`
	Key   string    `json:"key,omitempty"`
	Value string    `json:"value,omitempty"`
	Group string    `json:"group,omitempty"`
	// Revision is the object's resourceVersion, or the revision of etcd's event;
	// for a bookmark that up to which all events have been sent.
	Revision string `json:"revision"`
	Seen     Nanos  `json:"seen"`
	// InitialEnd marks the bookmark that ends a streaming list's initial events.
	InitialEnd bool `json:"initialEnd,omitempty"`

	// The rest is etcd's.

	// Batch numbers the responses of one watch: the events of one response have
	// the same.
	Batch int `json:"batch,omitempty"`
	// CreateRevision and Version are those of the key-value pair.
	CreateRevision string `json:"createRevision,omitempty"`
	Version        int64  `json:"version,omitempty"`
	// PreviousValue and PreviousRevision are those of the pair before, where the
	// watch asked for it and there was one.
	PreviousValue    string `json:"previousValue,omitempty"`
	PreviousRevision string `json:"previousRevision,omitempty"`
}
