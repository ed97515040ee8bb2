// Package beside_test is a suite with a spec of its own beside the scenarios, which package ginkgotest
// runs.
package beside_test

import (
	"flag"
	"fmt"
	"os"
	"testing"

	"github.com/onsi/ginkgo/v2"

	"github.com/holdfast-ha/holdfast/clusters"
	"github.com/holdfast-ha/holdfast/clusters/local"
	"github.com/holdfast-ha/holdfast/suites"
)

var options = &suites.Options{Providers: []clusters.Provider{local.Provider{}}}

var _ = ginkgo.Describe("our operator", func() {
	ginkgo.It("reconciles", func() {})
})

func TestMain(m *testing.M) {
	if err := options.AddFlags(flag.CommandLine); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	os.Exit(suites.Main(m, options))
}

func TestBeside(t *testing.T) {
	if os.Getenv("HOLDFAST_TEST_MARK") == "" {
		t.Skip("package ginkgotest runs it")
	}
	suites.RunSpecs(t, options, "beside")
}
