package record

// ProbeKind is what a probe requests.
type ProbeKind string

const (
	// ProbeRead is a read with resourceVersion=0, which an API server may answer from its watch
	// cache.
	ProbeRead ProbeKind = "read"
	// ProbeQuorumRead is a read of the newest state.
	ProbeQuorumRead ProbeKind = "quorum-read"
	ProbeWrite      ProbeKind = "write"
	// ProbeWatch is, on a persistent connection, an acknowledged write of an object that must
	// arrive as an event on an open watch; Start is the call of the write, End the arrival of the
	// event. On a new connection it opens a watch, which must show the object's state.
	ProbeWatch ProbeKind = "watch"
)

// ProbeKinds returns all kinds of probes.
func ProbeKinds() []ProbeKind {
	return []ProbeKind{ProbeRead, ProbeQuorumRead, ProbeWrite, ProbeWatch}
}

// Probe is one small request that measures availability.
type Probe struct {
	Entrance string    `json:"entrance"`
	Reused   bool      `json:"reused"` // on a persistent connection
	Kind     ProbeKind `json:"kind"`
	Start    Nanos     `json:"start"`
	End      Nanos     `json:"end"`
	OK       bool      `json:"ok"`
	Status   int       `json:"status,omitempty"` // HTTP status, 0 without an answer
	Error    string    `json:"error,omitempty"`
	Unsent   bool      `json:"unsent,omitempty"` // as in Op
	// Server is the node whose API server had the connection of the request, according to its
	// certificate; empty if the certificate does not identify one, if there was no connection,
	// and in records from before it was kept.
	Server string `json:"server,omitempty"`
	// Client names the client that made the probe with client-go's transport, which keeps one
	// HTTP/2 connection. Empty for the HTTP/1.1 probes.
	Client string `json:"client,omitempty"`
	// User names the account that made the probe, whose permissions come from a role; empty for
	// the probes of an administrator, whose permissions no API server has to look up.
	User string `json:"user,omitempty"`
	// RetryAfter is how many seconds the API server that refused the request asked the client to
	// wait before a retry; -1 if it did not ask, 0 if that is not known, as in records from
	// before it was kept.
	RetryAfter int `json:"retryAfter,omitempty"`
	// Again is that retry, the first and only one.
	Again *Repetition `json:"again,omitempty"`
}

// Repetition is a request that was retried because the API server asked for it.
type Repetition struct {
	Start  Nanos  `json:"start"`
	End    Nanos  `json:"end"`
	OK     bool   `json:"ok"`
	Status int    `json:"status,omitempty"`
	Error  string `json:"error,omitempty"`
}

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
