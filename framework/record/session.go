package record

// Session is one request of a client of etcd through the balancer in front of the
// members, on a connection of its own.
type Session struct {
	// Client is the client's host: the balancer knows clients by their addresses.
	Client string `json:"client"`
	// Member is the ID of the member that answered, empty without an answer.
	Member string `json:"member,omitempty"`
	Start  Nanos  `json:"start"`
	End    Nanos  `json:"end"`
	Error  string `json:"error,omitempty"`
}
