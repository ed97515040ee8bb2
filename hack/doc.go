// Package hack holds checks of the repository itself: that imports go one way
// (imports_test.go) and that generated files are up to date (verify-generated).
package hack
