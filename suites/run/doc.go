// Package run carries out runs: it plans which scenarios share a cluster, starts a worker for
// each cluster, repeats scenarios that an overloaded machine spoiled, and writes the results
// directory. `holdfast run` and the Ginkgo suites (package suites) are thin layers on it.
//
// A program that uses it calls Main first: workers are copies of the program.
package run
