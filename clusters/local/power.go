package local

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/holdfast-ha/holdfast/clusters/agenthttp"
)

// powerOn starts the machine with its old disk, and returns when its agent answers. It does
// nothing if the machine is on. If it fails, a scheduled return of power still takes place.
func (m *machine) powerOn(ctx context.Context) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.start(ctx); err != nil {
		return err
	}
	m.cancel()
	return nil
}

// start is powerOn with mu held.
func (m *machine) start(ctx context.Context) error {
	if m.powered() {
		return nil
	}
	if m.gone {
		return fmt.Errorf("machine %s belongs to a cluster that was deleted", m.name)
	}
	if m.disk != nil && m.disk.Ended() {
		return fmt.Errorf("machine %s cannot start: holdfast's process that serves its disk has exited, or was stuck and was stopped, and etcd would find no data; this is not a failure of the cluster", m.name)
	}
	m.pullPlug() // remains of a first process that exited on its own
	if err := m.boot(ctx); err != nil {
		m.pullPlug()
		return fmt.Errorf("failed to start machine %s: %w", m.name, err)
	}
	return nil
}

// powerOff cuts the power. It comes back after ttl, or never if ttl is 0.
func (m *machine) powerOff(ttl time.Duration) error {
	return m.cutPower(ttl, func() error { return nil })
}

// cutPower cuts the power, and applies a change to the disk.
func (m *machine) cutPower(ttl time.Duration, then func() error) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.powered() {
		return agenthttp.NothingDone(fmt.Sprintf("machine %s is already off", m.name))
	}
	m.cancel()
	m.pullPlug()
	err := then()
	if ttl > 0 {
		var ctx context.Context
		ctx, m.cancel = context.WithCancel(context.Background())
		go m.powerReturns(ctx, ttl)
	}
	return err
}

// Pauses between two attempts to bring power back.
const (
	powerPauseFirst = time.Second
	powerPauseMax   = 30 * time.Second
)

// powerReturns restores power after ttl, and does not give up until ctx is done: there may be
// no other process to do it.
func (m *machine) powerReturns(ctx context.Context, ttl time.Duration) {
	wait := ttl
	for pause := powerPauseFirst; ; pause = min(2*pause, powerPauseMax) {
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return
		}
		m.mu.Lock()
		var err error
		if ctx.Err() == nil {
			// A boot that has started is not cancelled.
			err = m.start(context.WithoutCancel(ctx))
		}
		m.mu.Unlock()
		if err == nil {
			return
		}
		fmt.Fprintf(os.Stderr, "holdfast: bringing power back, next attempt in %s: %v\n", pause, err)
		wait = pause
	}
}

// pullPlug stops the machine. The network goes first and the device last: otherwise peers would
// get FIN or RST from a machine that is supposed to be silent, from the dying processes or from
// the namespace that outlives them. The disk stops at the same moment, so that dying processes
// cannot write.
func (m *machine) pullPlug() {
	if m.port != nil {
		m.port.Unplug()
	}
	if l := m.life.Load(); l != nil {
		defer m.freezeDisk()()
		_ = l.first.Kill()
		m.awaitEnd(l)
		m.life.Store(nil)
		if err := m.limits.forget(); err != nil {
			fmt.Fprintf(os.Stderr, "holdfast: %s: %v\n", m.name, err)
		}
	}
	if m.port != nil {
		_ = m.port.Close()
		m.port = nil
	}
	m.watcher.stop()
	m.agent.Close()
}

// powered reports whether the machine's first process runs. It does not wait for a boot or a
// power cut in progress.
func (m *machine) powered() bool { return m.pid() != 0 }

// pid returns the PID of the machine's first process in the sandbox; 0 while the machine is
// off.
func (m *machine) pid() int {
	l := m.life.Load()
	if l == nil {
		return 0
	}
	select {
	case <-l.ended:
		return 0
	default:
		return l.first.Pid
	}
}

// close stops the machine permanently.
func (m *machine) close() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.gone = true
	m.cancel()
	m.pullPlug()
}
