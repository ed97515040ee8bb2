// Package engine carries out one experiment on a cluster: it checks that the cluster is healthy,
// puts traffic and observers on it, runs a timeline of faults, waits and actions, heals whatever
// is still broken, checks that the cluster is healthy again, and stores all observations in a
// record.
//
// It decides nothing: the judges evaluate the record. The tests do not need a cluster:
//
//	go test ./framework/engine
package engine
