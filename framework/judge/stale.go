package judge

import "github.com/holdfast-ha/holdfast/framework/record"

// failStale is the finding for a quorum read that was older than a write
// acknowledged before it was called.
func failStale(m *matter, read, newer *record.Op) finding {
	return failed("No quorum read may be stale: through %s, %s was read as %s %s, although %s had been written through %s and acknowledged %s, before the read was called (during the %s).",
		read.Entrance, read.Key, quoted(read.Value, read.Found), at(read.Call), writtenAs(newer), newer.Entrance, at(newer.Return), m.fault.what()).
		shows(describe(*newer), describe(*read))
}
