// Package judge turns a record into verdicts.
//
// It is pure: the same record gives the same verdicts, byte for byte, at any
// time and on any machine. It reads no clock, no file and no network. (One
// exception is a limit on the computing time of the linearizability check,
// which is an NP-hard problem; running into it is inconclusive.)
//
// One guarantee is one file and one Judge. What holds for all of them (a
// damaged record, a fault without proof, an unhealthy baseline, a starved
// harness, a history that is not linearizable) is in evaluate.go.
package judge
