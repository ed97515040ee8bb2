package suites

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"time"
)

// dieWithParent exits when ginkgo or go, which started this process, is killed: otherwise the
// specs would continue out of the user's reach. Workers and their clusters die with this process.
func dieWithParent() {
	parent := os.Getppid()
	name, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", parent))
	if err != nil || !slices.Contains([]string{"ginkgo", "go"}, strings.TrimSpace(string(name))) {
		return
	}
	go func() {
		for os.Getppid() == parent {
			time.Sleep(often)
		}
		fmt.Fprintf(os.Stderr, "%s was killed\n", strings.TrimSpace(string(name)))
		os.Exit(1)
	}()
}
