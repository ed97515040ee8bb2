package engine

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/holdfast-ha/holdfast/clusters/procfs"
)

// enterConfig names the engine whose network a process enters and the program that the process
// becomes there, as JSON in its only argument.
type enterConfig struct {
	// PID and StartTicks are those of the engine's first process.
	PID        int    `json:"pid"`
	StartTicks uint64 `json:"startTicks"`
	// Path and Args are those of the program.
	Path string   `json:"path"`
	Args []string `json:"args"`
}

// runEnter moves this process into the engine's network namespace only: root of the parent
// namespace may do that, while the engine's user namespace is closed to a process of several
// threads, and would remove the user's rights on files. Then the process becomes the program,
// and keeps the namespace of the calling thread.
func runEnter(args []string) error {
	var cfg enterConfig
	if len(args) != 1 || json.Unmarshal([]byte(args[0]), &cfg) != nil {
		return errors.New("usage: " + roleEnter + " CONFIG")
	}
	runtime.LockOSThread()
	ns, err := os.Open(filepath.Join("/proc", strconv.Itoa(cfg.PID), "ns/net"))
	// Checked after it was opened: an open descriptor cannot become another process's.
	engine := procfs.Process{Proc: "/proc", PID: cfg.PID, Stat: procfs.Stat{StartTicks: cfg.StartTicks}}
	if engine.Over() {
		return errors.New("the Docker engine that holdfast started has stopped; start it again: holdfast kind engine")
	}
	if err != nil {
		return fmt.Errorf("failed to open the network of the Docker engine: %w (requires root)", err)
	}
	if err := unix.Setns(int(ns.Fd()), unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("failed to enter the network of the Docker engine: %w (requires root)", err)
	}
	if err := syscall.Exec(cfg.Path, cfg.Args, os.Environ()); err != nil {
		return fmt.Errorf("failed to run %s in the network of the Docker engine: %w", cfg.Path, err)
	}
	return nil
}
