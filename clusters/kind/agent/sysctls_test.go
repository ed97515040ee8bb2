package agent

import (
	"errors"
	"os"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// What an engine makes of /proc/sys in a container without privileges is no obstacle.
func TestSysctlsThatCanOnlyBeRead(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can mount")
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // for good: the thread ends with the goroutine
		if err := errors.Join(unix.Unshare(unix.CLONE_NEWNS|unix.CLONE_NEWNET|unix.CLONE_FS),
			unix.Mount("", "/", "", unix.MS_PRIVATE|unix.MS_REC, ""),
			unix.Mount(sysctls, sysctls, "", unix.MS_BIND, ""),
			unix.Mount("", sysctls, "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY, "")); err != nil {
			t.Error(err)
			return
		}
		const file = sysctls + "/net/ipv4/tcp_retries2"
		if err := os.WriteFile(file, []byte("7"), 0o644); err == nil {
			t.Error("it can be written before")
		}
		err := setSysctls(map[string]string{"net.ipv4.tcp_retries2": "7"})
		if got, _ := os.ReadFile(file); err != nil || strings.TrimSpace(string(got)) != "7" {
			t.Errorf("%q, %v", got, err)
		}
	}()
	<-done
}
