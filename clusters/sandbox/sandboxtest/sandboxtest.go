// Package sandboxtest runs tests in a sandbox: they need no privileges and leave nothing behind.
package sandboxtest

import (
	"context"
	"os"
	"testing"

	"github.com/holdfast-ha/holdfast/clusters/sandbox"
)

// Unavailable begins the reason for which Need skips a test.
const Unavailable = "user namespaces are not available"

// unavailable says why a sandbox cannot be created. Main sets it.
var unavailable error

// Main runs the tests of m in a sandbox, or outside of one if this machine does not allow it,
// and returns their exit code. It is for TestMain.
func Main(m *testing.M) int {
	sandbox.Main()
	if sandbox.Inside() {
		return m.Run()
	}
	cmd, err := sandbox.Command(context.Background(), os.Args[1:]...)
	if err == nil {
		cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
		err = cmd.Start()
	}
	if err != nil {
		unavailable = err
		return m.Run()
	}
	_ = cmd.Wait() // its exit code is the result
	return cmd.ProcessState.ExitCode()
}

// Need skips a test outside of a sandbox.
func Need(t testing.TB) {
	t.Helper()
	if !sandbox.Inside() {
		t.Skipf("%s: %v", Unavailable, unavailable)
	}
}
