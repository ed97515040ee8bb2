// Package ha is an example of a vendor's own high-availability suite on holdfast: a provider,
// a fault, a judge and scenarios of its own, beside those that holdfast brings.
//
// Acme, the vendor, sells control planes whose elected components fail over faster than
// upstream's (provider.go), runs them on shared hosts that pause virtual machines now and then
// (stutter.go), and promises that such pauses never cause a failover (keeps_lease.go).
// ha_suite_test.go runs the experiments of testdata on real control planes:
//
//	holdfast fetch kubernetes kwok
//	go test .
//
// With -short only the tests run that need no cluster.
package ha
