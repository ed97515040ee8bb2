package certify

import (
	"os"
	"testing"

	"github.com/holdfast-ha/holdfast/clusters"
	"github.com/holdfast-ha/holdfast/clusters/local"
	"github.com/holdfast-ha/holdfast/suites/run"
)

func TestMain(m *testing.M) {
	clusters.Main(local.Provider{})
	program.Main()
	os.Exit(m.Run())
}

// program has the providers for the scenarios of these tests.
var program = run.Program{Providers: []clusters.Provider{local.Provider{}}}
