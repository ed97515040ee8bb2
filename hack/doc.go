// Package hack holds checks of the repository itself: that imports go one way
// (imports_test.go), that generated files are up to date (verify-generated), that Prow
// accepts the job in docs/ci (verify-prow), and that a newcomer gets through the README (tour).
package hack
