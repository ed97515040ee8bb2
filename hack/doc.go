// Package hack checks the repository itself: that imports go one way (imports_test.go), that
// judges do not use each other (judges_test.go), that the node agent stays small (agent_test.go),
// that generated files are up to date (verify-generated), that Prow accepts the job in docs/ci
// (verify-prow), and that the README works for a newcomer (tour).
package hack
