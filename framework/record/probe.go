package record

// ProbeKind is what a probe asks for.
type ProbeKind string

const (
	// ProbeRead is a read with resourceVersion=0, which an API server may answer
	// from what it has in memory.
	ProbeRead ProbeKind = "read"
	// ProbeQuorumRead is a read of the newest state.
	ProbeQuorumRead ProbeKind = "quorum-read"
	ProbeWrite      ProbeKind = "write"
	// ProbeWatch is, on a kept connection, an acknowledged write of an object that
	// must come as an event on a watch that is open; Start is the call of the
	// write, End when the event came. On a new connection it is a watch that is
	// opened and must show the object's state.
	ProbeWatch ProbeKind = "watch"
)

// ProbeKinds returns all kinds of probes.
func ProbeKinds() []ProbeKind {
	return []ProbeKind{ProbeRead, ProbeQuorumRead, ProbeWrite, ProbeWatch}
}

// Probe is one small request that measures availability.
type Probe struct {
	Entrance string    `json:"entrance"`
	Reused   bool      `json:"reused"` // on a kept connection
	Kind     ProbeKind `json:"kind"`
	Start    Nanos     `json:"start"`
	End      Nanos     `json:"end"`
	OK       bool      `json:"ok"`
	Status   int       `json:"status,omitempty"` // HTTP status, 0 without an answer
	Error    string    `json:"error,omitempty"`
	// Server is the node whose API server had the connection that the request was sent on,
	// by the certificate that it showed; empty where that does not tell, where there was no
	// connection, and in records from before it was kept.
	Server string `json:"server,omitempty"`
	// Client names the client that made the probe as users of client-go do: with its
	// transport, which keeps one HTTP/2 connection. Empty for the probes of HTTP/1.1.
	Client string `json:"client,omitempty"`
	// User names the account that made the probe, whose rights come from a role; empty for
	// the probes of an administrator, whose rights no API server has to look up.
	User string `json:"user,omitempty"`
	// RetryAfter is for how many seconds the API server that refused the request asked to
	// wait before it is repeated; -1 where it did not ask for that, 0 where that is not
	// known, as in records of before it was kept.
	RetryAfter int `json:"retryAfter,omitempty"`
	// Again is that repetition, the first and only one.
	Again *Repetition `json:"again,omitempty"`
}

// Repetition is a request that was made once more since the API server asked for that.
type Repetition struct {
	Start  Nanos  `json:"start"`
	End    Nanos  `json:"end"`
	OK     bool   `json:"ok"`
	Status int    `json:"status,omitempty"`
	Error  string `json:"error,omitempty"`
}
