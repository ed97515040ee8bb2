// Package judge turns a record into verdicts.
//
// It is pure: the same record gives the same verdicts, byte for byte, at any
// time and on any machine. It reads no clock, no file and no network. (One
// exception is a limit on the computing time of the linearizability check,
// which is an NP-hard problem; running into it is inconclusive.)
//
// It has three layers, and each imports those below it only:
//
//   - this package evaluates. What holds for all judges (a damaged record, a
//     fault without proof, an unhealthy baseline, a starved harness) is in
//     evaluate.go;
//   - internal/judges has the judges. One guarantee is one file and one
//     definition in registry.go, and no judge uses another;
//   - internal/facts has what the record shows, as several judges need it:
//     histories of keys, watches, leases, endpoint sets, outages, faults.
//
// The words of a verdict, below all of them, are in verdict.
package judge
