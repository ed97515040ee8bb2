// Package engine carries out one experiment on a cluster: it checks that the
// cluster is healthy, puts traffic and observers on it, goes through a timeline
// of faults, waits and actions, heals whatever is still broken, checks that the
// cluster is healthy again, and leaves all that was seen in a record.
//
// It decides nothing. Whether what it saw is good or bad is the judges' to say,
// from the record. The tests need no cluster:
//
//	go test ./framework/engine
package engine
