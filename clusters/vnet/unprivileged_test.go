package vnet

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/holdfast-ha/holdfast/clusters/sandbox/sandboxtest"
	"github.com/holdfast-ha/holdfast/clusters/system"
)

// nobody is the user ID of an ordinary user.
const nobody = 65534

// TestAsOrdinaryUser runs some of the tests again, as a user without rights.
func TestAsOrdinaryUser(t *testing.T) {
	if os.Geteuid() != 0 || os.Getenv("VNET_TEST_ORDINARY") != "" {
		t.Skip("this is an ordinary user already")
	}
	sandboxtest.Need(t)
	if !mapsUser(t, nobody) {
		t.Skipf("user %d does not exist here", nobody)
	}
	// The test binary lies in a directory that only its owner may enter.
	dir, err := os.MkdirTemp("", "vnet-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	binary, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "vnet.test")
	if err := os.WriteFile(path, binary, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(path, "-test.v", "-test.run", "^(TestTrafficAcross|TestOneWayCut|TestCloseLeavesNothing|TestProbeBackend|TestFallback)$")
	cmd.Dir = "/"
	cmd.Env = append(os.Environ(), "VNET_TEST_ORDINARY=yes")
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("tests as user %d: %v\n%s", nobody, err, out)
	}
	if bytes.Contains(out, []byte(sandboxtest.Unavailable)) {
		t.Skip("user namespaces are not available by an ordinary user")
	}
	if !bytes.Contains(out, []byte("--- PASS: TestTrafficAcross/packet")) {
		t.Errorf("the packet backend was not tested:\n%s", out)
	}
}

func mapsUser(t *testing.T, id int) bool {
	maps, err := system.ReadIDMap("/proc/self/uid_map")
	if err != nil {
		t.Fatal(err)
	}
	return slices.ContainsFunc(maps, func(m syscall.SysProcIDMap) bool { return id >= m.ContainerID && id < m.ContainerID+m.Size })
}

// TestProbeBackend checks that the probe says what Attach does.
func TestProbeBackend(t *testing.T) {
	probe := ProbeBackend()
	t.Logf("%+v", probe)
	l := newLab(t, Config{}, Auto, "a")
	if got := l.machines["a"].port.Backend(); got != probe.Backend {
		t.Errorf("Attach took %q, the probe says %+v", got, probe)
	}
	if probe.Backend == Packet && !strings.Contains(probe.Reason, tunPath) {
		t.Errorf("the reason does not name what is missing: %s", probe.Reason)
	}
	if err := unix.Access(tunPath, unix.R_OK|unix.W_OK); err == nil && probe.Backend != TAP {
		t.Errorf("%s can be opened, but the probe says %+v", tunPath, probe)
	}
}

// TestFallback hides the device node: Attach must do without, and say so.
func TestFallback(t *testing.T) {
	sandboxtest.Need(t)
	dir := filepath.Dir(tunPath)
	if _, err := os.Stat(dir); err == nil {
		if err := unix.Mount("none", dir, "tmpfs", 0, ""); err != nil {
			t.Fatalf("hide %s: %v", tunPath, err)
		}
		t.Cleanup(func() {
			if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
				t.Errorf("show %s again: %v", tunPath, err)
			}
		})
	}
	if probe := ProbeBackend(); probe.Backend != Packet || !strings.Contains(probe.Reason, "modprobe tun") {
		t.Errorf("the probe says %+v", probe)
	}
	l := newLab(t, Config{}, Auto, "a", "b")
	a, b := l.machines["a"], l.machines["b"]
	if got := a.port.Backend(); got != Packet {
		t.Errorf("Attach took %q", got)
	}
	if got := a.ping(b.addr, 1, 5*time.Second); got != 1 {
		t.Error("no answer")
	}
	if _, err := l.Attach(PortConfig{Name: "c", NetnsFile: a.ns, Device: "eth1", Backend: TAP}); !errors.Is(err, unix.ENOENT) {
		t.Errorf("Attach of a TAP: %v", err)
	}
}
