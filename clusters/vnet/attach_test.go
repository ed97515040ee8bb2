package vnet

import (
	"errors"
	"net/netip"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/holdfast-ha/holdfast/clusters/sandbox/sandboxtest"
)

func devices(t *testing.T, m *machine) (names []string) {
	t.Helper()
	err := withNetlink(m.ns, func(h *netlink.Handle) error {
		links, err := h.LinkList()
		for _, l := range links {
			names = append(names, l.Attrs().Name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

func TestCloseLeavesNothing(t *testing.T) {
	eachBackend(t, func(t *testing.T, backend Backend) {
		sandboxtest.Need(t)
		descriptors := func() int {
			entries, err := os.ReadDir("/proc/self/fd")
			if err != nil {
				t.Fatal(err)
			}
			return len(entries)
		}
		ns, err := newNetns()
		if err != nil {
			t.Fatal(err)
		}
		defer ns.Close()
		// The helper threads that entered a namespace may still be ending.
		stacks := make([]byte, 1<<20)
		for helpers := true; helpers; time.Sleep(time.Millisecond) {
			helpers = strings.Contains(string(stacks[:runtime.Stack(stacks, true)]), "vnet.onThread")
		}
		goroutines, fds := runtime.NumGoroutine(), descriptors()
		s := New(Config{})
		if got := runtime.NumGoroutine(); got != goroutines {
			t.Errorf("%d goroutines before the first port, want %d", got, goroutines)
		}
		for _, name := range []string{"eth0", "eth1"} {
			_, err := s.Attach(PortConfig{Name: name, Device: name, NetnsFile: ns, Backend: backend})
			if backend == TAP && errors.Is(err, errNoTAP) {
				t.Skip(err)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		for range 2 {
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
		}
		deadline := time.Now().Add(10 * time.Second)
		for runtime.NumGoroutine() != goroutines || descriptors() != fds {
			if time.Now().After(deadline) {
				t.Fatalf("left: %d goroutines of %d, %d descriptors of %d", runtime.NumGoroutine(), goroutines, descriptors(), fds)
			}
			time.Sleep(time.Millisecond)
		}
		if got := devices(t, &machine{ns: ns}); !slices.Equal(got, []string{"lo"}) {
			t.Errorf("devices left: %v", got)
		}
		if _, err := s.Attach(PortConfig{Name: "late"}); !errors.Is(err, ErrClosed) {
			t.Errorf("Attach after Close: %v", err)
		}
		if _, err := s.Impair(Rule{Links: []Link{{From: "eth0", To: "eth1"}}}); !errors.Is(err, ErrClosed) {
			t.Errorf("Impair after Close: %v", err)
		}
	})
}

func TestAttachRefuses(t *testing.T) {
	l := newLab(t, Config{}, Auto, "a")
	ns := l.machines["a"].ns
	for _, tc := range []struct {
		name   string
		config PortConfig
		says   string
	}{
		{"no name", PortConfig{}, "no name"},
		{"name in use", PortConfig{Name: "a", NetnsFile: ns}, "already attached"},
		{"device in use", PortConfig{Name: "b", NetnsFile: ns}, "eth0"},
		{"device in use, packet", PortConfig{Name: "b", NetnsFile: ns, Backend: Packet}, "eth0"},
		{"no namespace", PortConfig{Name: "b", Netns: "/proc/1/ns/nothing"}, "/proc/1/ns/nothing"},
		{"not a namespace", PortConfig{Name: "b", Netns: "/proc/1/status"}, "enter network namespace /proc/1/status"},
		{"long device name", PortConfig{Name: "b", NetnsFile: ns, Device: "a-device-name-too-long"}, "a-device-name-too-long"},
		{"group address", PortConfig{Name: "b", NetnsFile: ns, MAC: all[:]}, "ff:ff:ff:ff:ff:ff"},
		{"backend", PortConfig{Name: "b", NetnsFile: ns, Backend: "carrier pigeon"}, "carrier pigeon"},
		{"MTU", PortConfig{Name: "b", NetnsFile: ns, MTU: 10}, "MTU is 10"},
		{"address", PortConfig{Name: "b", NetnsFile: ns, Addrs: make([]netip.Prefix, 1)}, "network length"},
		{"no socket", PortConfig{Name: "b", Backend: Socket}, "socket"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := l.Attach(tc.config)
			if err == nil || !strings.Contains(err.Error(), tc.says) {
				t.Errorf("error %v, want it to name %q", err, tc.says)
			}
		})
	}
	if got := l.Parties(); !slices.Equal(got, []string{"a"}) {
		t.Errorf("parties after errors: %q", got)
	}
	if _, err := l.Attach(PortConfig{Name: "b", NetnsFile: ns, Device: "eth1"}); err != nil {
		t.Errorf("the name is not free after errors: %v", err)
	}
}

// TestIdleCostsNothing watches the processor time of a switch without traffic.
func TestIdleCostsNothing(t *testing.T) {
	l := newLab(t, Config{}, Auto, "a", "b")
	if got := l.machines["a"].ping(l.machines["b"].addr, 1, 5*time.Second); got != 1 {
		t.Fatal("no answer")
	}
	l.impair(Impairment{Delay: time.Millisecond, Rate: 1e9, Loss: 0.1}, Link{From: "a", To: "b"})
	used := func() time.Duration {
		var u unix.Rusage
		if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
			t.Fatal(err)
		}
		return time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	before := used()
	time.Sleep(500 * time.Millisecond)
	if got := used() - before; got > 100*time.Millisecond {
		t.Errorf("the idle process used %v of processor time in 500 ms", got)
	}
}

// TestCloseAfterMachineDied closes ports whose namespaces no longer exist.
func TestCloseAfterMachineDied(t *testing.T) {
	eachBackend(t, func(t *testing.T, backend Backend) {
		l := newLab(t, Config{}, backend, "a", "b")
		a, b := l.machines["a"], l.machines["b"]
		b.port.Unplug()
		b.ns.Close()
		if err := b.port.Close(); err != nil {
			t.Errorf("close at once: %v", err)
		}
		a.ns.Close()
		time.Sleep(100 * time.Millisecond) // the kernel clears up in its own time
		if err := a.port.Close(); err != nil {
			t.Errorf("close later: %v", err)
		}
	})
}
