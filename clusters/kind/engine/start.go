package engine

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/holdfast-ha/holdfast/clusters/internal/await"
	"github.com/holdfast-ha/holdfast/clusters/procfs"
	"github.com/holdfast-ha/holdfast/clusters/system"
)

// Config configures the start of an engine. Its zero value is useful.
type Config struct {
	// CacheDir is that of clusters/release, which also contains the engine's data; empty for
	// the default.
	CacheDir string
	// Timeout is how long the engine may take to answer; 0 for a minute.
	Timeout time.Duration
	// Progress receives one line per step; nil for silence.
	Progress func(string)
}

func (c Config) say(format string, args ...any) {
	if c.Progress != nil {
		c.Progress(fmt.Sprintf(format, args...))
	}
}

// Ensure returns an engine that can run privileged containers, and whose containers can be
// reached: the one that Find finds, or a new one if there is none or if the one of the Docker
// client's context cannot. If an engine that DOCKER_HOST names cannot, that is an error.
//
// As root it raises kernel limits that are too low for nodes on this machine: see Inotify.
func Ensure(ctx context.Context, c Config) (Engine, error) {
	e, err := ensure(ctx, c)
	if err == nil && e.Reachable() == nil {
		Inotify.raise(c.say)
	}
	return e, err
}

func ensure(ctx context.Context, c Config) (Engine, error) {
	e, err := Find(ctx)
	switch {
	case errors.Is(err, ErrNone):
		c.say("%s", firstLine(err.Error()))
		return Start(ctx, c)
	case err != nil:
		return Engine{}, err
	case e.Source == SourceHoldfast:
		return e, nil // it was checked when it was started
	}
	if err = e.Reachable(); err == nil {
		err = CheckPrivileged(ctx, e)
	}
	if err == nil {
		return e, nil
	}
	if ctx.Err() != nil || e.Source == SourceEnvironment {
		return Engine{}, err
	}
	c.say("%s", firstLine(err.Error()))
	own, startErr := Start(ctx, c)
	if startErr != nil {
		return Engine{}, errors.Join(err, startErr)
	}
	return own, nil
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	return line
}

// Start starts an engine of holdfast's own, or returns the running one. The engine continues
// when this process exits, until Stop or the exit of its first process. If Start fails, or this
// process dies before it is done, the engine is stopped too; only the log of one that did not
// come up stays.
func Start(ctx context.Context, c Config) (Engine, error) {
	if problems := Blocking(Problems()); len(problems) > 0 {
		return Engine{}, fmt.Errorf("failed to start a Docker engine: this machine lacks %s; %s", Missing(problems), Advice(problems))
	}
	p := newPlace()
	if err := p.make(); err != nil {
		return Engine{}, err
	}
	lock, err := p.lock(ctx)
	if err != nil {
		return Engine{}, err
	}
	defer lock.Close()
	docker, err := system.LookProgram("docker")
	if err != nil {
		return Engine{}, err
	}
	if s, err := p.load(); err == nil && s != nil && s.Ready && s.running() {
		return p.engine(ctx, *s, docker)
	}
	if err := p.clear(); err != nil {
		return Engine{}, err
	}
	data, err := p.dataDir(c.CacheDir)
	if err != nil {
		return Engine{}, err
	}
	_, statErr := os.Stat(data)
	s := &starting{place: p, config: c, docker: docker, lock: lock, data: data, fresh: os.IsNotExist(statErr)}
	c.say("starting a Docker engine in a sandbox; its data is in %s", data)
	e, err := s.start(ctx)
	if err != nil {
		return Engine{}, fmt.Errorf("failed to start a Docker engine: %w", errors.Join(err, s.undo(ctx)))
	}
	return e, nil
}

// starting is an engine that is being started.
type starting struct {
	place  place
	config Config
	docker string
	lock   *os.File
	data   string
	// fresh reports that no data existed.
	fresh bool

	init  *exec.Cmd
	ended chan struct{} // closed when the first process has exited
	// lifeline ends the sandbox when it is closed, unless something was written to it.
	lifeline *os.File
	events   *os.File
	warning  string
}

func (s *starting) start(ctx context.Context) (Engine, error) {
	if err := s.launch(); err != nil {
		return Engine{}, err
	}
	st, err := procfs.ReadStat("/proc", s.init.Process.Pid)
	if err != nil {
		return Engine{}, fmt.Errorf("failed to inspect its first process: %w\n%s", err, s.place.logTail())
	}
	written := state{PID: s.init.Process.Pid, StartTicks: st.StartTicks, BootID: s.place.bootID(),
		Started: time.Now().Truncate(time.Second), DataDir: s.data, place: s.place}
	if err := written.save(); err != nil {
		return Engine{}, err
	}
	if err := s.follow(ctx); err != nil {
		return Engine{}, err
	}
	written.Ready, written.Warning = true, s.warning
	e, err := s.await(ctx, written)
	if err != nil {
		return Engine{}, err
	}
	s.config.say("it answers: Docker %s, %s; trying a privileged container", e.Version, e.StorageDriver)
	if err := CheckPrivileged(ctx, e); err != nil {
		return Engine{}, err
	}
	if err := written.save(); err != nil {
		return Engine{}, err
	}
	// From here on the engine does not need this process any more.
	if _, err := s.lifeline.Write([]byte{stay}); err != nil {
		return Engine{}, fmt.Errorf("its first process has exited: %w\n%s", err, s.place.logTail())
	}
	_, _ = s.lifeline.Close(), s.events.Close()
	return e, nil
}

// launch starts the sandbox's first process.
func (s *starting) launch() error {
	for _, dir := range []string{s.place.dir, s.data} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return fmt.Errorf("failed to make its directory: %w", err)
		}
	}
	log, err := os.OpenFile(s.place.file(logFile), os.O_CREATE|os.O_WRONLY|os.O_TRUNC|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("failed to open its log: %w", err)
	}
	defer log.Close()
	config, err := s.initConfig()
	if err != nil {
		return err
	}
	uid, err := idMap("/proc/self/uid_map")
	if err != nil {
		return err
	}
	gid, err := idMap("/proc/self/gid_map")
	if err != nil {
		return err
	}
	lifeline, ours, err := os.Pipe()
	if err != nil {
		return err
	}
	defer lifeline.Close()
	s.lifeline = ours
	events, theirs, err := os.Pipe()
	if err != nil {
		return err
	}
	defer theirs.Close()
	s.events = events
	s.init = &exec.Cmd{Args: []string{roleInit, config}, Dir: "/", Stdout: log, Stderr: log,
		Env: daemonEnv(s.data), ExtraFiles: []*os.File{lifeline, theirs, s.lock},
		SysProcAttr: &syscall.SysProcAttr{
			Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWNET,
			UidMappings: uid, GidMappings: gid, GidMappingsEnableSetgroups: true}}
	if s.ended, err = system.Detach(s.init); err != nil {
		s.init = nil
		return system.ExplainNamespaces(err)
	}
	return nil
}

// idCount is how many IDs the sandbox maps if this process has all. It must not map all too:
// otherwise runc does not detect that it is in a user namespace, in which it leaves the
// kernel's device rules alone.
const idCount = 1_000_000

// idMap returns the mapping of a sandbox's IDs.
func idMap(path string) ([]syscall.SysProcIDMap, error) {
	maps, err := system.ReadIDMap(path)
	if err != nil {
		return nil, err
	}
	if len(maps) == 1 && maps[0].ContainerID == 0 && maps[0].Size > idCount {
		maps[0].Size = idCount
	}
	return maps, nil
}

// follow reads the first process's events until dockerd runs.
func (s *starting) follow(ctx context.Context) error {
	stop := context.AfterFunc(ctx, func() { _ = s.events.SetReadDeadline(time.Now()) })
	defer stop()
	for lines := bufio.NewScanner(s.events); lines.Scan(); {
		var e initEvent
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			return fmt.Errorf("its first process printed %q", lines.Text())
		}
		switch {
		case e.Error != "":
			return errors.New(e.Error)
		case e.Warning != "":
			s.warning = e.Warning
			s.config.say("warning: %s", e.Warning)
		case e.Running:
			return nil
		}
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	<-s.ended
	return fmt.Errorf("its first process exited (%s):\n%s", s.init.ProcessState, s.place.logTail())
}

// await waits until dockerd answers.
func (s *starting) await(ctx context.Context, written state) (Engine, error) {
	limit := cmp.Or(s.config.Timeout, time.Minute)
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("dockerd does not answer after %s", limit))
	defer cancel()
	e := s.place.describe(written, s.docker)
	err := await.Until(ctx, 50*time.Millisecond, func(ctx context.Context) error {
		select {
		case <-s.ended:
			return await.Fatal(fmt.Errorf("dockerd exited (%s)", s.init.ProcessState))
		default:
		}
		// A request through the client is expensive: first wait for a listener.
		conn, err := net.Dial("unix", s.place.file(socketFile))
		if err == nil {
			_ = conn.Close()
			e, err = ask(ctx, e)
		}
		return err
	})
	if err != nil && !errors.Is(err, context.Canceled) {
		err = fmt.Errorf("%w; the end of its log, %s:\n%s", err, s.place.file(logFile), s.place.logTail())
	}
	return e, err
}

// undo stops what was started, and removes what was created. The log stays for inspection,
// unless the start was cancelled before it failed.
func (s *starting) undo(ctx context.Context) error {
	if s.init != nil {
		_ = s.init.Process.Kill()
		<-s.ended
	}
	// Not before: on exit the first process would remove the log too.
	for _, f := range []*os.File{s.lifeline, s.events} {
		if f != nil {
			_ = f.Close()
		}
	}
	var errs []error
	if ctx.Err() == nil {
		errs = append(errs, os.RemoveAll(s.place.file(stateFile)), os.RemoveAll(s.place.file(socketFile)), s.place.sweep())
	} else {
		errs = append(errs, s.place.clear())
	}
	if s.fresh {
		errs = append(errs, removeData(s.data))
	}
	return errors.Join(errs...)
}

// describe returns what is known of an engine of holdfast's own without asking it.
func (p place) describe(s state, docker string) Engine {
	return Engine{Host: p.address(), Source: SourceHoldfast, PID: s.PID, StartTicks: s.StartTicks,
		Started: s.Started, Log: p.file(logFile), Warning: s.Warning, docker: docker}
}

// engine requests the description of a running engine of holdfast's own.
func (p place) engine(ctx context.Context, s state, docker string) (Engine, error) {
	e, err := ask(ctx, p.describe(s, docker))
	if err != nil {
		return Engine{}, fmt.Errorf("failed to ask the Docker engine that holdfast started (process %d): %w; see %s, and stop it with: holdfast kind engine stop",
			s.PID, err, p.file(logFile))
	}
	return e, nil
}
