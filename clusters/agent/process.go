package agent

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/holdfast-ha/holdfast/clusters/procfs"
)

// process is one process of a component, held by a descriptor so that it cannot be confused
// with another.
type process struct {
	pid   int
	ticks uint64
	shim  shim          // its parent, if that is a shim
	fd    int           // of pidfd_open, closed once it has exited
	gone  chan struct{} // closed when its exit was noticed
	// stray says that the process was started while its component is held down.
	stray bool
	// reap returns how the process exited, once it has; nil if the kernel must be asked.
	reap func() string
	// killed says that this agent sent SIGKILL.
	killed atomic.Bool
}

// findProcess returns the component's process; nil if none runs. Of several the oldest counts:
// the others were started inside its container.
func findProcess(c Component) (*process, error) {
	pids, err := procfs.Find("/proc", func(args []string) bool { return filepath.Base(args[0]) == c.Command })
	if err != nil {
		return nil, fmt.Errorf("failed to look for %s: %w", c.Name, err)
	}
	var oldest *process
	for _, pid := range pids {
		p, err := openProcess(pid)
		if err != nil {
			continue // it has exited
		}
		st, err := procfs.ReadStat("/proc", pid)
		args := procfs.Arguments("/proc", pid)
		fits := err == nil && !st.Ended() && len(args) > 0 && filepath.Base(args[0]) == c.Command
		if fits && c.Parent != "" {
			p.shim, fits = shimOf(st.Parent, c.Parent)
		}
		fits = fits && !c.excludes(pid)
		if !fits || oldest != nil && oldest.ticks <= p.ticks {
			p.close()
			continue
		}
		if oldest != nil {
			oldest.close()
		}
		oldest = p
	}
	return oldest, nil
}

// excludes reports whether a process runs in a pod that the API server created, such as a second
// scheduler or a cluster inside this one: it is not the component. Two kinds of pod are excepted: the
// agent's own, which may be the node, and the component's, whose manifest may set a UID of that form.
func (c Component) excludes(pid int) bool {
	uid := podOf(strconv.Itoa(pid))
	if uid == "" || uid == podOf("self") {
		return false
	}
	text, _ := os.ReadFile(c.Manifest)
	return !strings.Contains(string(text), uid)
}

// podOf returns the UID of the pod of the API server in which a process runs; empty if it runs in none.
func podOf(pid string) string {
	groups, _ := os.ReadFile(filepath.Join("/proc", pid, "cgroup")) // if it has exited, another check finds out
	return procfs.ScheduledPod(string(groups))
}

// podScript is the shell function that prints what podOf returns.
const podScript = `pod() { grep -Eo '[/-]pod([0-9a-f]{32}|[0-9a-f]{8}([-_][0-9a-f]{4}){3}[-_][0-9a-f]{12})' "/proc/$1/cgroup" | tail -n 1 | sed 's/^.pod//' | tr _ - | grep -e -; }
`

// openProcess opens a descriptor of a process.
func openProcess(pid int) (*process, error) {
	// The descriptor comes first: it cannot refer to another process later.
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return nil, os.NewSyscallError("pidfd_open", err)
	}
	st, err := procfs.ReadStat("/proc", pid)
	if err != nil {
		_ = unix.Close(fd)
		return nil, err
	}
	return &process{pid: pid, ticks: st.StartTicks, fd: fd, gone: make(chan struct{})}, nil
}

func (p *process) close() { _ = unix.Close(p.fd) }

// signal sends a signal to the whole process. The caller ensures that the descriptor is open.
func (p *process) signal(sig syscall.Signal) error {
	if err := unix.PidfdSendSignal(p.fd, sig, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("%s to process %d: %w", unix.SignalName(sig), p.pid, err)
	}
	if sig == syscall.SIGKILL {
		p.killed.Store(true)
	}
	return nil
}

// awaitEnd returns when the process has exited.
func (p *process) awaitEnd() {
	for {
		if _, err := unix.Poll([]unix.PollFd{{Fd: int32(p.fd), Events: unix.POLLIN}}, -1); err != unix.EINTR {
			return
		}
	}
}

const unknownExit = "unknown"

// reapLimit is how long the parent of an exited process may take to reap it. Before that the
// kernel does not report the exit status to others.
const reapLimit = 250 * time.Millisecond

// exit describes how a process exited. Kernels before 6.15 do not report the status to
// processes other than the parent, and no kernel does while the parent is stopped. Then it is
// known only for a process that was killed from here.
func (p *process) exit() string {
	if p.reap != nil {
		return p.reap()
	}
	for deadline := time.Now().Add(reapLimit); ; time.Sleep(time.Millisecond) {
		ws, err := exitStatus(p.fd)
		if err == nil {
			return procfs.ExitWords(ws)
		}
		waits := p.killed.Load() && !p.shim.none() && p.shim.stopped()
		if !errors.Is(err, errNotReaped) || waits || time.Now().After(deadline) {
			break
		}
	}
	if p.killed.Load() {
		return "signal: " + syscall.SIGKILL.String()
	}
	return unknownExit
}

var errNotReaped = errors.New("it has not been reaped")

// exitStatus reads from the kernel how a process exited.
func exitStatus(pidfd int) (syscall.WaitStatus, error) {
	info := unix.PidfdInfo{Mask: unix.PIDFD_INFO_EXIT}
	err := unix.IoctlPidfdInfo(pidfd, &info)
	switch {
	case err == unix.ESRCH || err == nil && info.Mask&unix.PIDFD_INFO_EXIT == 0:
		return 0, errNotReaped
	case err != nil:
		return 0, os.NewSyscallError("ioctl PIDFD_GET_INFO", err)
	}
	return syscall.WaitStatus(info.Exit_code), nil
}
