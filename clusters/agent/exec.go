package agent

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/holdfast-ha/holdfast/clusters/agenthttp"
	"github.com/holdfast-ha/holdfast/clusters/etcddata"
	"github.com/holdfast-ha/holdfast/clusters/internal/await"
	"github.com/holdfast-ha/holdfast/clusters/procfs"
	"github.com/holdfast-ha/holdfast/clusters/system"
	"github.com/holdfast-ha/holdfast/framework"
)

// Exec describes a process that the agent runs as its child and restarts when it exits.
type Exec struct {
	Path string   `json:"path"`
	Args []string `json:"args"` // with argv[0]
	Env  []string `json:"env,omitempty"`
	Dir  string   `json:"dir,omitempty"`
	Log  string   `json:"log"`
	// StartAfter is a URL; the first start waits until it answers 200. Empty to not wait.
	StartAfter string `json:"startAfter,omitempty"`
	// Supervised processes run only while they are admitted (Client.Admit).
	Supervised bool `json:"supervised,omitempty"`
}

// Argument returns the value of an argument --name=value, or an empty string.
func (e Exec) Argument(name string) string {
	for _, a := range e.Args {
		if value, ok := strings.CutPrefix(a, "--"+name+"="); ok {
			return value
		}
	}
	return ""
}

// with returns the arguments with one value replaced.
func (e Exec) with(name, value string) Exec {
	e.Args = slices.DeleteFunc(slices.Clone(e.Args), func(a string) bool { return strings.HasPrefix(a, "--"+name+"=") })
	e.Args = append(e.Args, "--"+name+"="+value)
	return e
}

// Back-off of restarts: the first restart is immediate, like the kubelet's; then the delay
// doubles up to the longest one, and is reset once a process has run for a while.
const (
	backOffFirst = time.Second
	backOffMax   = 30 * time.Second
	backOffReset = time.Minute
)

// starter is the keeper of a component that the agent runs itself.
type starter struct {
	w      *watcher
	clocks *clocks
	config Config
	wake   chan struct{} // the component may run now, or without its back-off

	expiring *time.Timer // of the admission; guarded by the watcher's mu
}

var errHeld = errors.New("it is held down")

func (*starter) early() bool                         { return true }
func (*starter) hold(context.Context) error          { return nil } // run looks at the state
func (s *starter) release(ctx context.Context) error { return s.hurry(ctx) }

func (s *starter) hurry(context.Context) error {
	select {
	case s.wake <- struct{}{}:
	default:
	}
	return nil
}

// run keeps the component running until ctx is done.
func (s *starter) run(ctx context.Context) {
	w := s.w
	w.mu.Lock()
	adopted := w.proc
	w.mu.Unlock()
	if adopted != nil {
		s.started(adopted)
	} else if w.saved().Started.IsZero() {
		s.awaitOther(ctx)
	}
	delay := time.Duration(0)
	for {
		w.mu.Lock()
		p, down := w.proc, w.down()
		w.mu.Unlock()
		if p != nil {
			select {
			case <-p.gone:
				delay = backOff(delay, time.Since(w.saved().Started))
				continue
			case <-ctx.Done():
				return
			}
		}
		var over <-chan time.Time
		if down {
			delay = 0 // a hold is not a failure
		} else {
			over = time.After(delay)
		}
		select {
		case <-over:
		case <-s.wake:
			delay = 0
			continue
		case <-ctx.Done():
			return
		}
		if err := s.start(); err != nil && !errors.Is(err, errHeld) {
			complain(fmt.Errorf("%s: %w", w.spec.Name, err))
			w.note(func(st *componentState) { st.LastExit = err.Error() })
			delay = backOff(max(delay, backOffFirst), 0)
		}
	}
}

// backOff returns the delay before the next start, given the delay before the last one and how
// long that process ran.
func backOff(delay, ran time.Duration) time.Duration {
	switch {
	case ran > backOffReset:
		return 0
	case delay == 0 && ran > backOffFirst:
		return time.Millisecond // the next one counts as a repetition
	}
	return min(max(2*delay, backOffFirst), backOffMax)
}

// startAfterLimit is when a component is started for the first time even if the one before it
// does not answer.
const startAfterLimit = 20 * time.Second

// awaitOther waits for the component that should start before this one. It only saves time, so
// the answer is not verified.
func (s *starter) awaitOther(ctx context.Context) {
	url := s.w.spec.Exec.StartAfter
	if url == "" {
		return
	}
	client := &http.Client{Timeout: time.Second, Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	defer client.CloseIdleConnections()
	ctx, cancel := context.WithTimeout(ctx, startAfterLimit)
	defer cancel()
	_ = await.Until(ctx, 50*time.Millisecond, func(ctx context.Context) error {
		_, err := await.Request(ctx, client, http.MethodGet, url, "")
		return err
	})
}

// start starts the component unless it is held down or not admitted.
func (s *starter) start() error {
	w := s.w
	w.mu.Lock()
	spec := w.arguments()
	w.mu.Unlock()
	log, err := os.OpenFile(spec.Log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return fmt.Errorf("failed to open its log: %w", err)
	}
	defer log.Close()
	cmd := &exec.Cmd{Path: spec.Path, Args: spec.Args, Env: append(os.Environ(), spec.Env...), Dir: spec.Dir,
		Stdout: log, Stderr: log, SysProcAttr: &syscall.SysProcAttr{Setsid: true}}
	p, err := s.begin(cmd)
	if err != nil {
		return err
	}
	s.started(p)
	return nil
}

// begin starts a command as the component's process, unless the component must stay down.
func (s *starter) begin(cmd *exec.Cmd) (*process, error) {
	// The lock of the clocks comes before the watcher's: clocks ask for processes.
	s.clocks.mu.Lock()
	defer s.clocks.mu.Unlock()
	w := s.w
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.down() {
		return nil, errHeld
	}
	err := s.clocks.start(w.spec.Name, cmd)
	if err != nil {
		return nil, fmt.Errorf("failed to start it: %w", err)
	}
	p, err := openProcess(cmd.Process.Pid)
	if err != nil {
		// Nothing would watch it.
		return nil, errors.Join(fmt.Errorf("failed to start it: %w", err), cmd.Process.Kill(), cmd.Wait())
	}
	p.reap = func() string {
		_ = cmd.Wait() // its exit status is in ProcessState
		return cmd.ProcessState.String()
	}
	select {
	case <-s.wake: // this start satisfies the request
	default:
	}
	w.runs(p)
	s.expireLater()
	return p, nil
}

// started sets the clock and the control groups of a new or adopted process.
func (s *starter) started(p *process) {
	s.clocks.settle(s.w.spec.Name, p.pid)
	if err := s.joinGroups(p.pid); err != nil {
		complain(fmt.Errorf("failed to put %s into its control group: %w", s.w.spec.Name, err))
	}
}

// joinGroups puts a process into the control groups of its component. It reads them after the
// process is in the agent's state: either it finds a new group here, or the provider that
// creates the group finds the process.
func (s *starter) joinGroups(pid int) error {
	b, err := os.ReadFile(s.config.Groups)
	if err != nil {
		return nil // nothing to join
	}
	var groups map[framework.Component][]string
	if err := json.Unmarshal(b, &groups); err != nil {
		return err
	}
	return JoinGroups(groups[s.w.spec.Name], pid)
}

// JoinGroups writes a PID, or 0 for this process, to files of control groups. A group that no
// longer exists was removed together with its limit.
func JoinGroups(files []string, pid int) error {
	for _, file := range files {
		f, err := os.OpenFile(file, os.O_WRONLY, 0)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		} else if err != nil {
			return err
		}
		_, err = f.WriteString(strconv.Itoa(pid))
		_ = f.Close()
		if err != nil {
			return err
		}
	}
	return nil
}

// adopt takes over the process that an earlier agent started, if it runs; with the watcher's mu
// held.
func (s *starter) adopt() {
	w, saved := s.w, s.w.saved()
	p, err := openProcess(saved.PID)
	if saved.PID != 0 && (err != nil || p.ticks != saved.StartTicks) {
		w.note(func(st *componentState) { st.PID, st.StartTicks, st.LastExit = 0, 0, s.exitOf(saved.PID) })
	}
	if err == nil && p.ticks != saved.StartTicks {
		p.close()
	}
	if err != nil || p.ticks != saved.StartTicks {
		// That agent may have died between starting the process and recording it.
		if p = s.unknown(); p == nil {
			return
		}
	}
	p.reap = func() string { return s.exitOfOrphan(p.pid) }
	w.runs(p)
	s.expireLater()
}

// unknown returns a process of the component that an earlier agent started; nil if none runs.
func (s *starter) unknown() *process {
	pids, err := procfs.Find("/proc", func(args []string) bool { return slices.Equal(args, s.w.spec.Exec.Args) })
	if err != nil || len(pids) == 0 {
		return nil
	}
	p, err := openProcess(pids[0])
	if err != nil {
		return nil
	}
	if st, err := procfs.ReadStat("/proc", p.pid); err != nil || st.StartTicks != p.ticks || st.Parent != 1 || st.Ended() {
		p.close()
		return nil
	}
	return p
}

// exitOfOrphan returns how an adopted process exited. It is a child of the machine's first
// process, which records the exit shortly after it is visible.
func (s *starter) exitOfOrphan(pid int) string {
	how := s.exitOf(pid)
	for deadline := time.Now().Add(time.Second); how == unknownExit && time.Now().Before(deadline); how = s.exitOf(pid) {
		time.Sleep(time.Millisecond)
	}
	return how
}

// exitOf returns how a process exited that the machine's first process reaped.
func (s *starter) exitOf(pid int) string {
	f, err := os.Open(s.config.Exits)
	if err != nil {
		return unknownExit
	}
	defer f.Close()
	how := unknownExit
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if rest, ok := strings.CutPrefix(lines.Text(), strconv.Itoa(pid)+" "); ok {
			how = rest
		}
	}
	return how
}

// standsBy reports whether the component is supervised and not admitted now.
func (w *watcher) standsBy() bool {
	return w.spec.Exec != nil && w.spec.Exec.Supervised && system.Monotonic() >= w.saved().AdmittedUntil
}

// down reports whether the component must not be started.
func (w *watcher) down() bool { return w.held() || w.standsBy() }

// admit lets a supervised component run until a time of the machine's monotonic clock. If that
// has passed, it returns after the component has exited. The agent kills the component at that
// time without a further request, since the supervisor may have died or be frozen, and a graceful
// stop could take too long.
func (w *watcher) admit(ctx context.Context, until time.Duration) error {
	s, ok := w.keep.(*starter)
	w.mu.Lock()
	if !ok || !w.spec.Exec.Supervised {
		w.mu.Unlock()
		return agenthttp.NothingDone("it runs its own leader election")
	}
	waits := w.standsBy()
	w.note(func(st *componentState) { st.AdmittedUntil = until })
	ends := w.standsBy()
	s.expireLater()
	p := w.proc
	w.mu.Unlock()
	if waits != ends {
		_ = s.hurry(ctx)
	}
	if !ends {
		return nil
	}
	return w.awaitDown(ctx, p, false)
}

// expireLater kills the component when its admission expires, or now if it has; with the
// watcher's mu held.
func (s *starter) expireLater() {
	w := s.w
	if !w.spec.Exec.Supervised {
		return
	}
	if s.expiring != nil {
		s.expiring.Stop()
	}
	if left := w.saved().AdmittedUntil - system.Monotonic(); left > 0 {
		s.expiring = time.AfterFunc(left, func() {
			w.mu.Lock()
			defer w.mu.Unlock()
			s.expire()
		})
	} else {
		s.expire()
	}
}

// expire kills the component unless it was admitted again; with the watcher's mu held.
func (s *starter) expire() {
	if w := s.w; w.standsBy() && w.proc != nil {
		_ = w.proc.signal(syscall.SIGKILL)
	}
}

// renew changes how the component is started the next time. The running process is left alone.
func (w *watcher) renew(spec *Exec) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.spec.Exec == nil || spec == nil {
		return agenthttp.Unsupported("the node agent does not start this component")
	}
	w.spec.Exec = spec
	return nil
}

// reload sends SIGHUP, which makes some programs reload their configuration.
func (w *watcher) reload() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.look(); w.proc == nil {
		return ErrNotRunning
	}
	return w.proc.signal(syscall.SIGHUP)
}

// arguments returns the arguments for the component's next start. An etcd member that joins a
// cluster starts with the arguments for joining until it has data of its own. With mu held.
func (w *watcher) arguments() Exec {
	spec, joins := *w.spec.Exec, w.saved().Joins
	if joins == "" {
		return spec
	}
	logs, _ := os.ReadDir(filepath.Join(spec.Argument("data-dir"), etcddata.Member, "wal"))
	if slices.ContainsFunc(logs, func(e os.DirEntry) bool { return filepath.Ext(e.Name()) == ".wal" }) {
		w.note(func(st *componentState) { st.Joins = "" })
		return spec
	}
	return spec.with("initial-cluster", joins).with("initial-cluster-state", "existing")
}
