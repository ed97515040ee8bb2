package local

import (
	"os"
	"testing"
)

func TestMain(m *testing.M) {
	Main()
	if !InSandbox() {
		os.Exit(Reexec())
	}
	os.Exit(m.Run())
}
