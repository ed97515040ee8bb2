package sandbox

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/clusters/system"
)

// testRole makes a copy of the test binary play a part outside the sandbox.
const testRole = "HOLDFAST_TEST_ROLE"

func TestMain(m *testing.M) {
	Main()
	switch {
	case os.Getenv(testRole) == "parent":
		os.Exit(parentOfSandbox())
	case os.Getenv(testRole) == "sandboxed":
		// The first process of the parent's sandbox, with something running.
		fmt.Println("sandboxed")
		time.Sleep(time.Minute)
		os.Exit(1)
	case !Inside():
		os.Exit(Reexec())
	}
	os.Exit(m.Run())
}

// parentOfSandbox starts a sandbox and waits to be killed.
func parentOfSandbox() int {
	os.Setenv(testRole, "sandboxed")
	cmd, err := Command(context.Background())
	if err != nil {
		fmt.Println(err)
		return 1
	}
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if err := system.ExplainNamespaces(cmd.Run()); err != nil {
		fmt.Println(err)
	}
	return 1
}
