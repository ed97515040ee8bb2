// Package workload puts traffic on a cluster and records what its clients saw.
//
// Start starts the general traffic, which consists of profiles (config.go), one file each:
// registers (writers.go), lists, watches, kubernetes, etcd, and application. A register is the
// value in a ConfigMap; its key in the record is the ConfigMap's name, which no earlier run has
// used, so a register does not exist when its history starts. Values are unique. The registers of
// one traffic, and its keys in etcd, are each a collection: only the traffic changes them, so
// that lists and watches can be checked against the writes.
//
// When the traffic stops, each key of a collection is written a last time, read, and listed, and
// each watch has time to show that.
//
// The functions of actions.go and stale.go are single steps of an experiment.
//
// This package does not judge the observations. An operation is "ok", "refused" or "unknown"
// depending on what its client can know (see client.Answer.Outcome).
//
// Tests need only loopback: go test ./framework/workload/...
package workload
