package clock

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// onOwnThread runs f on a thread that exits with it. When a thread exits, the kernel releases
// the threads that it traces, in whatever state.
func onOwnThread(f func() error) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		if unix.Gettid() == os.Getpid() {
			// The main thread never exits. While it is held here, the next goroutine runs on
			// another one.
			done <- onOwnThread(f)
			runtime.UnlockOSThread()
			return
		}
		done <- f()
	}()
	return <-done
}

// tracee is a thread that is stopped until it is released.
type tracee struct {
	tid int
	// halted says that it is in a ptrace stop. Otherwise it is blocked in the kernel, and will
	// stop before it returns.
	halted bool
	signal int // about to be delivered to it, 0 for none
	// Where it will continue.
	pc, sp uint64
}

// stopLimit is how long stopping the threads of a process may take.
const stopLimit = time.Second

// errNotStopped is the result for a thread that is not scheduled.
var errNotStopped = errors.New("it did not stop in time")

// blockedAfter is how long a thread may take to stop before checking whether it waits for a
// disk.
const blockedAfter = 2 * time.Millisecond

// halt stops every thread of a process. The calling thread is their tracer; the returned
// threads, also with an error, continue after release, or when that thread exits.
func halt(pid int) (all []*tracee, err error) {
	seen := map[int]bool{}
	deadline := time.Now().Add(stopLimit)
	for {
		tids, err := threads(pid)
		if err != nil {
			return all, err
		}
		var fresh []*tracee
		for _, tid := range tids {
			if seen[tid] {
				continue
			}
			seen[tid] = true
			err := ptrace(unix.PTRACE_SEIZE, tid, 0)
			if err == nil {
				err = ptrace(unix.PTRACE_INTERRUPT, tid, 0)
			}
			if err == nil {
				fresh = append(fresh, &tracee{tid: tid})
			} else if state := threadState(pid, tid); err != syscall.ESRCH && alive(state) {
				return all, fmt.Errorf("failed to trace thread %d of process %d: %w", tid, pid, err)
			}
		}
		// Threads that ran until now may have created others.
		if len(fresh) == 0 {
			break
		}
		for _, t := range fresh {
			there, err := t.await(pid, true, deadline)
			if err != nil {
				return all, err
			}
			if there {
				all = append(all, t)
			}
		}
	}
	if !slices.ContainsFunc(all, func(t *tracee) bool { return t.halted }) {
		return all, fmt.Errorf("process %d has no thread that can be stopped: %w", pid, syscall.ESRCH)
	}
	return all, nil
}

// await returns when the thread is in a ptrace stop, or, if allowed, blocked in the kernel, and
// whether the thread exists.
func (t *tracee) await(pid int, orBlocked bool, deadline time.Time) (there bool, err error) {
	began := time.Now()
	for {
		status, stopped, err := stopOf(t.tid)
		if err != nil {
			return false, nil // it has exited
		}
		if stopped {
			t.halted = true
			const eventStop = 128 // PTRACE_EVENT_STOP: without a signal
			if status>>8 != eventStop {
				t.signal = status & 0x7f
			}
			var regs syscall.PtraceRegs
			if err := syscall.PtraceGetRegs(t.tid, &regs); err != nil {
				return false, nil
			}
			t.pc, t.sp = regs.Rip, regs.Rsp
			return true, nil
		}
		switch state := threadState(pid, t.tid); {
		case !alive(state):
			return false, nil
		case orBlocked && state == 'D' && time.Since(began) > blockedAfter:
			if t.pc, t.sp, err = whereBlocked(pid, t.tid); err == nil {
				return true, nil
			}
		}
		if time.Now().After(deadline) {
			return false, fmt.Errorf("thread %d of process %d: %w", t.tid, pid, errNotStopped)
		}
		time.Sleep(20 * time.Microsecond)
	}
}

// release lets the threads continue, with the signals that were about to be delivered. Those
// that wait in the kernel are released when the calling thread exits.
func release(all []*tracee) {
	for _, t := range all {
		if t.halted {
			_ = ptrace(unix.PTRACE_DETACH, t.tid, t.signal)
		}
	}
}

// stackDepth is how much of a stack is searched: a whole signal handler's, as in Go. It
// contains the return address to interrupted code.
const stackDepth = 32 << 10

// in reports whether a thread is, or will return to, somewhere in the ranges. In a signal
// handler a word on the stack that only looks so counts too. Outside of one nothing on the
// stack points there, since the functions call no other; remains of earlier handlers must not
// count.
func (t *tracee) in(pid int, mem *os.File, ranges []span) (bool, error) {
	if slices.ContainsFunc(ranges, func(s span) bool { return s.holds(t.pc) }) {
		return true, nil
	}
	if handling, err := blocksSignals(pid, t.tid); !handling || err != nil {
		return false, err
	}
	stack := make([]byte, stackDepth)
	n, err := mem.ReadAt(stack, int64(t.sp&^7))
	if n == 0 && err != nil && !errors.Is(err, syscall.EIO) {
		return false, fmt.Errorf("failed to read the stack of thread %d: %w", t.tid, err)
	}
	for i := 0; i+8 <= n; i += 8 {
		word := binary.LittleEndian.Uint64(stack[i:])
		if slices.ContainsFunc(ranges, func(s span) bool { return s.holds(word) }) {
			return true, nil
		}
	}
	return false, nil
}

// blocksSignals reports whether any signal is blocked in a thread, as the one is
// that a handler was called for.
func blocksSignals(pid, tid int) (bool, error) {
	b, err := os.ReadFile(procFile(pid, "task", strconv.Itoa(tid), "status"))
	if err != nil {
		return false, fmt.Errorf("failed to read which signals thread %d blocks: %w", tid, err)
	}
	_, rest, _ := strings.Cut(string(b), "\nSigBlk:\t")
	mask, _, _ := strings.Cut(rest, "\n")
	blocked, err := strconv.ParseUint(mask, 16, 64)
	if err != nil {
		return false, fmt.Errorf("failed to read which signals thread %d blocks: %w", tid, err)
	}
	return blocked != 0, nil
}

// span is a range of addresses, first included and end not.
type span struct{ first, end uint64 }

func (s span) holds(address uint64) bool { return s.first <= address && address < s.end }

func threads(pid int) ([]int, error) {
	entries, err := os.ReadDir(procFile(pid, "task"))
	if err != nil {
		return nil, fmt.Errorf("failed to list the threads of process %d: %w", pid, err)
	}
	var all []int
	for _, e := range entries {
		if tid, err := strconv.Atoi(e.Name()); err == nil {
			all = append(all, tid)
		}
	}
	return all, nil
}

// threadState returns the letter of /proc/PID/task/TID/stat, 0 for no thread.
func threadState(pid, tid int) byte {
	b, err := os.ReadFile(procFile(pid, "task", strconv.Itoa(tid), "stat"))
	if i := bytes.LastIndexByte(b, ')'); err == nil && i >= 0 && i+2 < len(b) {
		return b[i+2]
	}
	return 0
}

// alive reports from a thread's state whether it exists and has not exited.
func alive(state byte) bool { return state != 0 && state != 'Z' && state != 'X' }

// whereBlocked returns where a thread that waits in the kernel will continue.
func whereBlocked(pid, tid int) (pc, sp uint64, err error) {
	b, err := os.ReadFile(procFile(pid, "task", strconv.Itoa(tid), "syscall"))
	if err != nil {
		return 0, 0, err
	}
	// The number of the call and its arguments, if it is one, then both.
	f := strings.Fields(string(b))
	if len(f) < 3 {
		return 0, 0, fmt.Errorf("thread %d runs", tid)
	}
	if sp, err = strconv.ParseUint(f[len(f)-2], 0, 64); err != nil {
		return 0, 0, err
	}
	pc, err = strconv.ParseUint(f[len(f)-1], 0, 64)
	return pc, sp, err
}

func procFile(pid int, names ...string) string {
	return filepath.Join(append([]string{"/proc", strconv.Itoa(pid)}, names...)...)
}

// ptrace makes a request whose address argument is 0.
func ptrace(request, tid, data int) error {
	_, _, errno := syscall.Syscall6(syscall.SYS_PTRACE, uintptr(request), uintptr(tid), 0, uintptr(data), 0, 0)
	if errno != 0 {
		return errno
	}
	return nil
}

// stopOf handles a stop of a thread. It does not wait for it, and leaves the exit of a process
// to its parent, which reaps it.
func stopOf(tid int) (status int, stopped bool, err error) {
	// siginfo_t as waitid fills it in.
	var info struct {
		signo, errno, code, _ int32
		pid                   int32
		uid                   uint32
		status                int32
		_                     [25]int32
	}
	_, _, errno := syscall.Syscall6(syscall.SYS_WAITID, unix.P_PID, uintptr(tid), uintptr(unsafe.Pointer(&info)),
		unix.WSTOPPED|unix.WNOHANG|unix.WALL, 0, 0)
	switch {
	case errno == syscall.EINTR:
		return 0, false, nil
	case errno != 0:
		return 0, false, errno
	}
	return int(info.status), info.pid != 0, nil
}
