// Package suite is Acme's Ginkgo suite: all scenarios of holdfast's catalogue and Acme's own,
// on Acme's clusters, with labels, processes and a results directory.
//
//	go test . -timeout 60m                                  # Acme's own scenarios
//	go run github.com/onsi/ginkgo/v2/ginkgo --label-filter='own || smoke' .
package suite

import (
	"flag"
	"fmt"
	"os"
	"testing"

	// The ginkgo program passes its flags only to packages whose tests import it.
	_ "github.com/onsi/ginkgo/v2"

	"example.com/acme/ha"

	"github.com/holdfast-ha/holdfast/clusters"
	"github.com/holdfast-ha/holdfast/framework/fault"
	"github.com/holdfast-ha/holdfast/framework/judge"
	"github.com/holdfast-ha/holdfast/suites"
)

var options = &suites.Options{
	Providers: []clusters.Provider{ha.Provider{}},
	Files:     []string{"../testdata/pauses.yaml"},
	Faults:    []*fault.Fault{ha.Stutter},
	Judges:    []judge.Judge{ha.KeepsLease},
}

func TestMain(m *testing.M) {
	if err := options.AddFlags(flag.CommandLine); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	os.Exit(suites.Main(m, options))
}

func TestHA(t *testing.T) {
	if testing.Short() {
		t.Skip("creates clusters")
	}
	suites.RunSpecs(t, options, "Acme's control plane")
}
