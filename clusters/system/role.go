package system

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
)

// Self is this program, also if its file was replaced since it started.
const Self = "/proc/self/exe"

// Again returns a command that runs this program again, with args. Cancelling ctx sends it
// SIGINT.
func Again(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, Self, args...)
	cmd.Args[0] = os.Args[0]
	// A process group of its own, so that Ctrl-C reaches only this process.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	return cmd
}

// Detach starts a copy of this program in the role cmd.Args[0], in a session of its own, and
// returns a channel that is closed when it has exited; cmd.ProcessState says how.
func Detach(cmd *exec.Cmd) (exited chan struct{}, err error) {
	cmd.Path = Self
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Setsid = true
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	exited = make(chan struct{})
	go func() {
		_ = cmd.Wait()
		close(exited)
	}()
	return exited, nil
}

// RunRole runs the role under whose name, argv[0], the program has re-executed itself, and does not return
// in one.
func RunRole(roles map[string]func(args []string) error) {
	name := filepath.Base(os.Args[0])
	// Else ps and the kernel's messages call a copy that was started from Self "exe".
	_ = os.WriteFile("/proc/self/comm", []byte(name), 0)
	run := roles[name]
	if run == nil {
		return
	}
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
		os.Exit(3)
	}
	os.Exit(0)
}
