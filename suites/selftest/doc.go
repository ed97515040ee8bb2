// Package selftest shows that every judge can find what it looks for: a check that has never
// failed is not a check. Each guarantee has a planted violation, a real cluster that breaks it on
// purpose, and a healthy twin, the same scenario with nothing planted. The judge must find the
// violation and must not accuse the twin.
//
// The table is plants(). A plant is a way to create a cluster (arguments of its components), or
// rules for the proxies of a cluster that tamper with the answers of etcd and API servers
// (clusters/local/tamper), or both. Clusters with proxies are healthy without rules, so they also
// serve as the healthy twins, and many plants share one.
//
// `holdfast selftest` runs it. The tests of this package run the same; they need user namespaces
// and the binaries of `holdfast fetch kubernetes` and `holdfast fetch kwok`:
//
//	go test ./suites/selftest
package selftest
