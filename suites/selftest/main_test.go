package selftest

import (
	"os"
	"testing"

	"github.com/holdfast-ha/holdfast/clusters/local"
)

func TestMain(m *testing.M) {
	local.Main()
	if !local.InSandbox() {
		os.Exit(local.Reexec())
	}
	os.Exit(m.Run())
}
