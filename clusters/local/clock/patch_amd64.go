package clock

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"
)

const (
	jump        = 0xe9 // jmp, with a relative target in the next four bytes
	sysinfoEhdr = 33   // AT_SYSINFO_EHDR: where the vDSO is
)

// patcher knows the vDSO of this machine and what to put into it.
type patcher struct {
	*image
	stub *stub
	// areas are two places for the code, relative to the vDSO. The one that
	// is not in use is written, so that no thread meets half of a change.
	areas [2]uint64
}

// thisMachine makes a patcher from this process's own vDSO, which is the same in
// every process.
var thisMachine = sync.OnceValues(func() (*patcher, error) {
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		return nil, fmt.Errorf("failed to look for the vDSO: %w", err)
	}
	for line := range strings.Lines(string(maps)) {
		var where span
		if !strings.HasSuffix(line, "[vdso]\n") {
			continue
		}
		if _, err := fmt.Sscanf(line, "%x-%x", &where.first, &where.end); err != nil {
			return nil, fmt.Errorf("failed to look for the vDSO in %q: %w", line, err)
		}
		b, err := readMemory(os.Getpid(), where)
		if err != nil {
			return nil, err
		}
		img, err := parseImage(b)
		if err != nil {
			return nil, err
		}
		return newPatcher(img)
	}
	return nil, errors.New("this process has no vDSO")
})

func newPatcher(img *image) (*patcher, error) {
	s, err := loadStub()
	if err != nil {
		return nil, err
	}
	size := uint64(len(s.code))
	p := &patcher{image: img, stub: s, areas: [2]uint64{img.free, img.free + size}}
	if img.free+2*size > uint64(len(img.bytes)) {
		return nil, fmt.Errorf("the vDSO has %d empty bytes at its end, and %d are needed", uint64(len(img.bytes))-img.free, 2*size)
	}
	return p, nil
}

// jumpTo returns the code that jumps from a function to its replacement.
func (p *patcher) jumpTo(name function, area uint64) []byte {
	from, to := p.entries[name]+jumpSize, area+uint64(p.stub.starts[name])
	return binary.LittleEndian.AppendUint32([]byte{jump}, uint32(int32(int64(to)-int64(from))))
}

// original returns the kernel's own first bytes of a function.
func (p *patcher) original(name function) []byte {
	return p.bytes[p.entries[name]:][:jumpSize]
}

// state is the state of a process's vDSO.
type state struct {
	base uint64
	// inUse counts the functions that jump to each area, whole those that are the kernel's own.
	inUse [2]int
	whole int
	// code is what both areas hold.
	code [2][]byte
}

// look reads the vDSO of a process, and refuses bytes that neither the kernel nor this package
// wrote.
func (p *patcher) look(pid int) (state, error) {
	var s state
	var err error
	if s.base, err = vdsoOf(pid); err != nil {
		return s, err
	}
	b, err := readMemory(pid, span{s.base, s.base + uint64(len(p.bytes))})
	if err != nil {
		return s, err
	}
	expected := bytes.Clone(p.bytes)
	for i, area := range p.areas {
		s.code[i] = b[area:][:len(p.stub.code)]
		copy(expected[area:], s.code[i])
	}
	for _, name := range functions() {
		begins := b[p.entries[name]:][:jumpSize]
		switch {
		case bytes.Equal(begins, p.original(name)):
			s.whole++
		case bytes.Equal(begins, p.jumpTo(name, p.areas[0])):
			s.inUse[0]++
		case bytes.Equal(begins, p.jumpTo(name, p.areas[1])):
			s.inUse[1]++
		}
		copy(expected[p.entries[name]:], begins)
	}
	if s.whole+s.inUse[0]+s.inUse[1] != len(functions()) || !bytes.Equal(b, expected) {
		return s, fmt.Errorf("the vDSO of process %d is not this kernel's for 64 bits, or something else has changed it", pid)
	}
	return s, nil
}

// write shifts the clock of a process whose threads are all stopped. It returns false if a
// thread is in the way.
func (p *patcher) write(pid int, all []*tracee, to Shift) (bool, error) {
	s, err := p.look(pid)
	if err != nil {
		return false, err
	}
	area := 0
	if s.inUse[0] > 0 {
		area = 1
	}
	var changes []span
	for _, name := range functions() {
		// A thread at the very beginning runs the new instruction.
		at := s.base + p.entries[name]
		changes = append(changes, span{at + 1, at + jumpSize})
	}
	code := p.stub.with(to.constants())
	where := s.base + p.areas[area]
	if !to.IsZero() {
		changes = append(changes, span{where, where + uint64(len(code))})
	}
	mem, err := os.Open(procFile(pid, "mem"))
	if err != nil {
		return false, err
	}
	defer mem.Close()
	var writer int
	for _, t := range all {
		busy, err := t.in(pid, mem, changes)
		if busy || err != nil {
			return false, err
		}
		if t.halted {
			writer = t.tid
		}
	}
	poke := func(at uint64, b []byte) error {
		if _, err := syscall.PtracePokeText(writer, uintptr(at), b); err != nil {
			return fmt.Errorf("failed to write into the vDSO of process %d: %w", pid, err)
		}
		return nil
	}
	if !to.IsZero() {
		if err := poke(where, code); err != nil {
			return false, err
		}
	}
	for _, name := range functions() {
		begins := p.original(name)
		if !to.IsZero() {
			begins = p.jumpTo(name, p.areas[area])
		}
		if err := poke(s.base+p.entries[name], begins); err != nil {
			return false, err
		}
	}
	return true, nil
}

// applyLimit is how long Apply tries to find a moment without a thread in the way.
const applyLimit = 10 * time.Second

// Apply shifts the clock of a running process, and replaces an earlier shift. The zero Shift
// restores the real clock.
func Apply(pid int, s Shift) error {
	if err := s.check(); err != nil {
		return err
	}
	p, err := thisMachine()
	if err != nil {
		return err
	}
	if now, err := Read(pid); err == nil && now.constants() == s.constants() {
		return nil
	}
	for deadline := time.Now().Add(applyLimit); ; time.Sleep(500 * time.Microsecond) {
		inTime := time.Now().Before(deadline)
		var done bool
		err := onOwnThread(func() error {
			all, err := halt(pid)
			if err == nil {
				done, err = p.write(pid, all, s)
			}
			release(all)
			return err
		})
		switch {
		case (errors.Is(err, errNoVDSO) || errors.Is(err, errNotStopped)) && inTime:
		case err != nil:
			return fmt.Errorf("failed to shift the clock of process %d: %w", pid, err)
		case done:
			return nil
		case !inTime:
			return fmt.Errorf("failed to shift the clock of process %d: for %s one of its threads was always reading the clock", pid, applyLimit)
		}
	}
}

// startLimit is how long a new process may take until it stops before its first
// instruction.
const startLimit = 10 * time.Second

// ErrNotShifted is returned by Start for a process that runs with the real
// clock.
var ErrNotShifted = errors.New("the process is running, but its clock is not shifted")

// Start starts cmd with a shifted clock: the shift applies before the program's first
// instruction. The command must not request a parent-death signal, since the thread that starts
// it exits.
func Start(cmd *exec.Cmd, s Shift) error {
	if err := s.check(); err != nil {
		return err
	}
	p, err := thisMachine()
	if err != nil {
		return err
	}
	attributes := syscall.SysProcAttr{}
	if cmd.SysProcAttr != nil {
		attributes = *cmd.SysProcAttr
	}
	attributes.Ptrace = true
	cmd.SysProcAttr = &attributes
	return onOwnThread(func() error {
		if err := cmd.Start(); err != nil {
			return err
		}
		// After exec it stops with SIGTRAP, which must not be delivered.
		pid := cmd.Process.Pid
		t := &tracee{tid: pid}
		there, err := t.await(pid, false, time.Now().Add(startLimit))
		if !there && err == nil {
			return nil // it was killed, as its parent will see
		}
		if err == nil {
			t.signal = 0
			_, err = p.write(pid, []*tracee{t}, s)
			release([]*tracee{t})
		}
		if err != nil {
			return fmt.Errorf("%w: %w", ErrNotShifted, err)
		}
		return nil
	})
}

// Read returns the shift of a process's clock, from its memory; that is the zero Shift if the
// vDSO is the kernel's own.
func Read(pid int) (Shift, error) {
	p, err := thisMachine()
	if err != nil {
		return Shift{}, err
	}
	s, err := p.look(pid)
	if err != nil {
		return Shift{}, fmt.Errorf("failed to read the clock of process %d: %w", pid, err)
	}
	if s.whole == len(functions()) {
		return Shift{}, nil
	}
	for i, n := range s.inUse {
		if n != len(functions()) {
			continue
		}
		c, err := p.stub.constantsOf(s.code[i])
		if err != nil {
			return Shift{}, fmt.Errorf("failed to read the clock of process %d: %w", pid, err)
		}
		return c.shift(), nil
	}
	return Shift{}, fmt.Errorf("the clock of process %d is shifted in part", pid)
}

// Supported returns nil if clocks can be shifted, and otherwise why not. It tries it on a
// process of its own, which never runs.
var Supported = sync.OnceValue(func() error {
	cmd := &exec.Cmd{Path: "/proc/self/exe", Args: []string{"holdfast-clock-trial"}}
	want := Shift{Offset: time.Hour}
	_, err := thisMachine()
	if err != nil {
		return err
	}
	return onOwnThread(func() error {
		cmd.SysProcAttr = &syscall.SysProcAttr{Ptrace: true, Pdeathsig: syscall.SIGKILL}
		if err := cmd.Start(); err != nil {
			return fmt.Errorf("failed to trace a process of one's own (ptrace): %w", err)
		}
		defer cmd.Wait()
		defer cmd.Process.Kill()
		pid := cmd.Process.Pid
		t := &tracee{tid: pid}
		if there, err := t.await(pid, false, time.Now().Add(startLimit)); !there {
			return fmt.Errorf("failed to trace a child process (ptrace): it did not stop: %v", err)
		}
		p, err := thisMachine()
		if err != nil {
			return err
		}
		if _, err := p.write(pid, []*tracee{t}, want); err != nil {
			return err
		}
		got, err := Read(pid)
		if err == nil && got != want {
			err = fmt.Errorf("a write to a vDSO did not take effect: it reads %v, not %v", got, want)
		}
		return err
	})
})

// errNoVDSO is the result for a process that is about to execute a program.
var errNoVDSO = errors.New("it has no vDSO")

// vdsoOf returns the address of a process's vDSO.
func vdsoOf(pid int) (uint64, error) {
	b, err := os.ReadFile(procFile(pid, "auxv"))
	if err != nil {
		return 0, fmt.Errorf("failed to look for the vDSO of process %d: %w", pid, err)
	}
	for ; len(b) >= 16; b = b[16:] {
		if binary.LittleEndian.Uint64(b) == sysinfoEhdr {
			return binary.LittleEndian.Uint64(b[8:]), nil
		}
	}
	return 0, fmt.Errorf("process %d: %w", pid, errNoVDSO)
}

func readMemory(pid int, s span) ([]byte, error) {
	mem, err := os.Open(procFile(pid, "mem"))
	if err != nil {
		return nil, fmt.Errorf("failed to open the memory of process %d: %w", pid, err)
	}
	defer mem.Close()
	b := make([]byte, s.end-s.first)
	if _, err := mem.ReadAt(b, int64(s.first)); err != nil {
		return nil, fmt.Errorf("failed to read the memory of process %d: %w", pid, err)
	}
	return b, nil
}
