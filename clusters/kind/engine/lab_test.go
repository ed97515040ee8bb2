package engine

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/clusters/procfs"
	"github.com/holdfast-ha/holdfast/framework/polltest"
)

// testRole makes a copy of the test binary play a part.
const testRole = "HOLDFAST_TEST_ROLE"

func TestMain(m *testing.M) {
	Main()
	bin := filepath.Dir(os.Args[0])
	switch filepath.Base(os.Args[0]) {
	case "dockerd":
		os.Exit(fakeDockerd(bin, os.Args[1:]))
	case "docker":
		os.Exit(fakeDocker(bin, os.Args[1:]))
	case "containerd":
		time.Sleep(time.Hour)
	}
	switch os.Getenv(testRole) {
	case "start":
		_, err := Start(context.Background(), Config{})
		fmt.Println(err)
		os.Exit(1)
	case "report":
		os.Exit(report())
	}
	os.Exit(m.Run())
}

// lab is a machine with stand-ins for Docker's programs.
type lab struct {
	t   *testing.T
	bin string // where they are, and where they look for what to do
	run string
}

func newLab(t *testing.T) *lab {
	t.Helper()
	l := &lab{t: t, bin: t.TempDir()}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range programs {
		if err := os.Symlink(exe, filepath.Join(l.bin, p.name)); err != nil {
			t.Fatal(err)
		}
	}
	l.runIn(t.TempDir())
	t.Setenv("PATH", l.bin)
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	for _, name := range []string{"DOCKER_HOST", "DOCKER_CONTEXT", "DOCKER_TLS_VERIFY"} {
		t.Setenv(name, "") // so that it is restored
		os.Unsetenv(name)
	}
	return l
}

// runIn puts the state into a directory.
func (l *lab) runIn(dir string) {
	l.run = dir
	l.t.Setenv("XDG_RUNTIME_DIR", dir)
}

// namespaces skips a test that starts an engine where that may not be done, and
// ends the engine after it.
func (l *lab) namespaces() *lab {
	l.t.Helper()
	if problems := Blocking(Problems()); len(problems) > 0 {
		l.t.Skipf("this machine lacks %s", Missing(problems))
	}
	l.t.Cleanup(func() {
		if _, err := stop(context.Background(), 0); err != nil {
			l.t.Error(err)
		}
	})
	return l
}

// set configures the stand-ins.
func (l *lab) set(name, text string) {
	l.t.Helper()
	if err := os.WriteFile(filepath.Join(l.bin, name), []byte(text), 0o644); err != nil {
		l.t.Fatal(err)
	}
}

// told reads what the stand-ins have recorded.
func (l *lab) told(name string) string {
	b, _ := os.ReadFile(filepath.Join(l.bin, name))
	return string(b)
}

func (l *lab) start() Engine {
	l.t.Helper()
	e, err := Start(l.t.Context(), Config{Progress: func(s string) { l.t.Log(s) }})
	if err != nil && strings.Contains(err.Error(), "does not let you make user namespaces") {
		l.t.Skip(err)
	}
	if err != nil {
		l.t.Fatal(err)
	}
	return e
}

// place is the engine's.
func (l *lab) place() place { return newPlace() }

// empty fails where anything of the engine is left but, where they may be, its
// data.
func (l *lab) empty(first procfs.Process, data bool) {
	l.t.Helper()
	if !first.Over() {
		l.t.Errorf("the engine's first process, %d, still runs", first.PID)
	}
	if _, err := os.Stat(l.place().dir); err == nil {
		files, _ := filepath.Glob(l.place().file("*"))
		l.t.Errorf("the state is still there: %v", files)
	}
	dir, err := l.place().dataDir("")
	if err != nil {
		l.t.Fatal(err)
	}
	if _, err := os.Stat(dir); (err == nil) != data {
		l.t.Errorf("the data are there: %v, want %v", err == nil, data)
	}
	commands, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, file := range commands {
		if b, err := os.ReadFile(file); err == nil && l.bin != "" && strings.Contains(string(b), l.bin) {
			l.t.Errorf("a process of the engine still runs: %q", b)
		}
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		l.t.Fatal(err)
	}
	for _, dir := range []string{l.run, dir} {
		if strings.Contains(string(mounts), " "+dir) {
			l.t.Errorf("something is mounted below %s:\n%s", dir, mounts)
		}
	}
}

var eventually = polltest.Until

// fakeDockerd answers at the configured socket, and has a child process.
func fakeDockerd(bin string, args []string) int {
	mode, _ := os.ReadFile(filepath.Join(bin, "mode"))
	note := func(name string, v any) {
		b, _ := json.Marshal(v)
		_ = os.WriteFile(filepath.Join(bin, name+".new"), b, 0o644)
		_ = os.Rename(filepath.Join(bin, name+".new"), filepath.Join(bin, name))
	}
	flag := func(name string) string { return args[slices.Index(args, name)+1] }
	child := exec.Command(filepath.Join(bin, "containerd"))
	child.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	_ = child.Start()
	terminate := make(chan os.Signal, 1)
	signal.Notify(terminate, syscall.SIGTERM)
	mounts, _ := os.ReadFile("/proc/self/mountinfo")
	note("daemon", map[string]any{"args": args, "env": os.Environ(), "mounts": string(mounts)})
	switch string(mode) {
	case "fails":
		fmt.Fprintln(os.Stderr, "failed to start daemon: Devices cgroup isn't mounted")
		return 1
	case "silent":
		fmt.Fprintln(os.Stderr, "still loading containers")
		time.Sleep(time.Hour)
	case "stubborn":
		signal.Ignore(syscall.SIGTERM)
	}
	listener, err := net.Listen("unix", strings.TrimPrefix(flag("--host"), "unix://"))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	go http.Serve(listener, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(info{ServerVersion: "20.10.24", Driver: flag("--storage-driver"), CgroupVersion: "1",
			CgroupDriver: "cgroupfs", DockerRootDir: flag("--data-root"), SecurityOptions: []string{"name=seccomp,profile=default"}})
	}))
	<-terminate
	note("terminated", true)
	return 0
}

// fakeDocker is the Docker client, as far as holdfast uses it.
func fakeDocker(bin string, args []string) int {
	calls, err := os.OpenFile(filepath.Join(bin, "calls"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err == nil {
		fmt.Fprintln(calls, strings.Join(args, " "))
		calls.Close()
	}
	host := os.Getenv("DOCKER_HOST")
	if host == "" {
		host = "unix://" + filepath.Join(bin, "default.sock")
	}
	switch args[0] {
	case "context":
		fmt.Println(host)
	case "info":
		client := http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", strings.TrimPrefix(host, "unix://"))
		}}}
		resp, err := client.Get("http://docker/info")
		if err != nil {
			_ = json.NewEncoder(os.Stdout).Encode(info{ServerErrors: []string{"Cannot connect to the Docker daemon at " + host}})
			return 1
		}
		_, _ = io.Copy(os.Stdout, resp.Body)
	case "import":
		_, _ = io.Copy(io.Discard, os.Stdin)
		fmt.Println("sha256:probe")
	case "run":
		if b, err := os.ReadFile(filepath.Join(bin, "refuse")); err == nil {
			fmt.Fprintf(os.Stderr, "%s\n", b)
			return 125
		}
		return probeExit
	}
	return 0
}

// surroundings are what a process in the engine's network finds there.
type surroundings struct {
	Network    string
	Interfaces []string
	Up         bool // of the loopback
	Forward    string
	DockerHost string
	Extra      string // what descriptor 3 has
	Args       []string
	UID        int
}

// report prints this process's surroundings.
func report() int {
	s := surroundings{DockerHost: os.Getenv("DOCKER_HOST"), Args: os.Args[1:], UID: os.Getuid()}
	s.Network, _ = os.Readlink("/proc/self/ns/net")
	interfaces, _ := net.Interfaces()
	for _, i := range interfaces {
		s.Interfaces = append(s.Interfaces, i.Name)
		s.Up = s.Up || (i.Name == "lo" && i.Flags&net.FlagUp != 0)
	}
	b, _ := os.ReadFile("/proc/sys/net/ipv4/ip_forward")
	s.Forward = strings.TrimSpace(string(b))
	s.Extra, _ = bufio.NewReader(os.NewFile(3, "extra")).ReadString('\n')
	if err := json.NewEncoder(os.Stdout).Encode(s); err != nil {
		return 1
	}
	return 7
}

// look has a copy of this program report from the engine's network.
func look(t *testing.T, e Engine) surroundings {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	extra := filepath.Join(t.TempDir(), "extra")
	if err := os.WriteFile(extra, []byte("passed on\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(extra)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	t.Setenv(testRole, "report")
	defer os.Unsetenv(testRole)
	cmd, err := e.Command(t.Context(), exe, "one", "two three")
	if err != nil {
		t.Fatal(err)
	}
	cmd.ExtraFiles = []*os.File{f}
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if cmd.ProcessState == nil || cmd.ProcessState.ExitCode() != 7 {
		t.Fatalf("reporting from the engine's network: %v", err)
	}
	var s surroundings
	if err := json.Unmarshal(out, &s); err != nil {
		t.Fatal(err)
	}
	return s
}
