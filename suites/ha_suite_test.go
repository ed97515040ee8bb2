package suites_test

import (
	"flag"
	"fmt"
	"os"
	"testing"

	// The ginkgo program passes its flags only to packages whose tests import it.
	_ "github.com/onsi/ginkgo/v2"

	"github.com/holdfast-ha/holdfast/clusters"
	"github.com/holdfast-ha/holdfast/clusters/kind"
	"github.com/holdfast-ha/holdfast/clusters/local"
	"github.com/holdfast-ha/holdfast/clusters/remote"
	"github.com/holdfast-ha/holdfast/suites"
)

var options = &suites.Options{Providers: []clusters.Provider{local.Provider{}, kind.Provider{}, remote.Provider{}}}

func TestMain(m *testing.M) {
	if err := options.AddFlags(flag.CommandLine); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	os.Exit(suites.Main(m, options))
}

// TestHA runs the catalogue's scenarios as specs; see the package's comment.
func TestHA(t *testing.T) {
	if testing.Short() {
		t.Skip("creates clusters")
	}
	suites.RunSpecs(t, options, "holdfast")
}
