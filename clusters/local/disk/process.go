package disk

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/holdfast-ha/holdfast/clusters/agenthttp"
	"github.com/holdfast-ha/holdfast/clusters/system"
	"github.com/holdfast-ha/holdfast/framework"
)

// Process is a disk that another process serves.
type Process struct {
	cfg    ServeConfig
	server *agenthttp.Client
	cmd    *exec.Cmd
	ended  chan struct{}
}

// Start runs this program again under the name role, which must call Serve with its arguments,
// and returns when the disk is mounted. Its output goes to log.
func Start(role string, cfg ServeConfig, log *os.File) (*Process, error) {
	b, err := json.Marshal(cfg)
	if err != nil {
		return nil, err
	}
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	p := &Process{cfg: cfg, server: agenthttp.NewUnix("its process", cfg.Socket)}
	p.cmd = &exec.Cmd{Args: []string{role, string(b)}, Stdout: log, Stderr: log, ExtraFiles: []*os.File{w}}
	p.ended, err = system.Detach(p.cmd)
	_ = w.Close()
	if err != nil {
		return nil, fmt.Errorf("failed to start the disk's process: %w", err)
	}
	said, err := io.ReadAll(r)
	if err == nil && string(said) != "\n" {
		err = errors.New(strings.TrimSpace(string(said)))
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("the disk's process: %w", err), p.Stop())
	}
	return p, nil
}

// Stop kills the disk's process, which makes waiting requests fail, and unmounts the disk in
// the mount namespace of this process.
func (p *Process) Stop() error {
	_ = p.cmd.Process.Kill()
	<-p.ended
	p.server.Close()
	_ = os.Remove(p.cfg.Socket)
	if err := unix.Unmount(p.cfg.Mount, unix.MNT_DETACH); err != nil && err != unix.EINVAL && err != unix.ENOENT {
		return fmt.Errorf("failed to unmount the disk from %s: %w", p.cfg.Mount, err)
	}
	return nil
}

// Ended reports whether the disk's process has exited. No files are on the disk then.
func (p *Process) Ended() bool {
	select {
	case <-p.ended:
		return true
	default:
		return false
	}
}

// Mount is where the disk is mounted.
func (p *Process) Mount() string { return p.cfg.Mount }

func (p *Process) call(ctx context.Context, verb string, r request, out any) error {
	if err := p.server.Call(ctx, http.MethodPost, verb, r, out); err != nil {
		return fmt.Errorf("%s of the disk on %s: %w", verb, p.cfg.Mount, err)
	}
	return nil
}

// FaultDisk, RestoreDisk, DiskCounters and ProbeDisk implement framework.DiskFaulter. The other methods
// are those of Disk.

func (p *Process) FaultDisk(ctx context.Context, f framework.DiskFault, ttl time.Duration) (handle string, err error) {
	err = p.call(ctx, "fault", request{Fault: f, TTL: ttl}, &handle)
	return handle, err
}

func (p *Process) RestoreDisk(ctx context.Context, handle string) error {
	return p.call(ctx, "restore", request{Handle: handle}, nil)
}

func (p *Process) DiskCounters(ctx context.Context, handle string) (counters framework.DiskCounters, err error) {
	err = p.call(ctx, "counters", request{Handle: handle}, &counters)
	return counters, err
}

func (p *Process) Flip(ctx context.Context, f framework.DiskFlip, ttl time.Duration) (flipped framework.DiskFlipped, err error) {
	err = p.call(ctx, "flip", request{Flip: f, TTL: ttl}, &flipped)
	return flipped, err
}

func (p *Process) Wipe(ctx context.Context, ttl time.Duration) (handle string, err error) {
	err = p.call(ctx, "wipe", request{TTL: ttl}, &handle)
	return handle, err
}

func (p *Process) Unsynced(ctx context.Context, file string) (unsynced bool, err error) {
	err = p.call(ctx, "unsynced", request{File: file}, &unsynced)
	return unsynced, err
}

func (p *Process) Freeze(ctx context.Context) error { return p.call(ctx, "freeze", request{}, nil) }

func (p *Process) Thaw(ctx context.Context) error { return p.call(ctx, "thaw", request{}, nil) }

func (p *Process) Drop(ctx context.Context) (loss framework.DiskLoss, err error) {
	err = p.call(ctx, "drop", request{}, &loss)
	return loss, err
}

func (p *Process) ProbeDisk(ctx context.Context) (framework.DiskProbe, error) {
	return Probe(ctx, p.cfg.Mount, func(file string) (bool, error) { return p.Unsynced(ctx, file) })
}
