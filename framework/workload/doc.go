// Package workload puts traffic on a cluster and records what its clients saw.
//
// Start begins the general traffic: concurrent clients, each bound to one
// entrance, on a few shared registers. A register is the value in a ConfigMap;
// its key in the record is the ConfigMap's name, which no earlier run has used,
// so a register does not exist when its history begins. Values are unique.
//
// The functions of actions.go and stale.go are single steps of an experiment.
//
// Nothing here decides whether what was seen is right. An operation is "ok",
// "refused" or "unknown" by what its client can know (see client.Answer.Outcome).
//
// Tests need nothing but loopback: go test ./framework/workload/...
package workload
