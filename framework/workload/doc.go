// Package workload puts traffic on a cluster and records what its clients saw.
//
// Start begins the general traffic, which is made of profiles (config.go), a file
// each: registers (writers.go), lists, watches, kubernetes, etcd, and application. A register is
// the value in a ConfigMap; its key in the record is the ConfigMap's name, which no
// earlier run has used, so a register does not exist when its history begins. Values
// are unique. The registers of one traffic, and its keys in etcd, are each a
// collection: nobody but the traffic changes them, so that lists and watches can be
// held against the writes.
//
// When the traffic stops, each key of a collection is written a last time, read, and
// listed, and each watch is given the time to show that.
//
// The functions of actions.go and stale.go are single steps of an experiment.
//
// Nothing here decides whether what was seen is right. An operation is "ok",
// "refused" or "unknown" by what its client can know (see client.Answer.Outcome).
//
// Tests need nothing but loopback: go test ./framework/workload/...
package workload
