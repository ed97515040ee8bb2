package benchnetwork

import (
	"os"
	"runtime"
	"testing"

	"github.com/rs/zerolog"
	"golang.org/x/sys/unix"

	"github.com/holdfast-ha/holdfast/clusters/sandbox/sandboxtest"
)

// TestMain runs the benchmarks in a sandbox: no packet leaves it, and nothing is left behind.
func TestMain(m *testing.M) {
	zerolog.SetGlobalLevel(zerolog.Disabled) // some toxics log despite their settings
	// The switch needs a CPU when a packet arrives; see its package comment.
	runtime.GOMAXPROCS(max(4, runtime.GOMAXPROCS(0)))
	os.Exit(sandboxtest.Main(m))
}

// machine is a network namespace.
type machine struct{ ns *os.File }

// newMachine makes a network namespace.
func newMachine(b *testing.B) machine {
	b.Helper()
	var m machine
	err := onThread(func() (err error) {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return err
		}
		m.ns, err = os.Open("/proc/thread-self/ns/net")
		return err
	})
	if err != nil {
		b.Fatalf("making a network namespace: %v", err)
	}
	b.Cleanup(func() { _ = m.ns.Close() })
	return m
}

// in calls do in the machine's namespace.
func (m machine) in(do func() error) error {
	return onThread(func() error {
		if err := unix.Setns(int(m.ns.Fd()), unix.CLONE_NEWNET); err != nil {
			return err
		}
		return do()
	})
}

// onThread calls do on its own thread, which exits with it.
func onThread(do func() error) error {
	result := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // never unlocked, so that the thread exits
		result <- do()
	}()
	return <-result
}
