package balancer

import (
	"encoding/json"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// asBalancer is set in the environment of copies of the test that are to be a
// balancer.
const asBalancer = "HOLDFAST_TEST_AS_BALANCER"

func TestMain(m *testing.M) {
	if os.Getenv(asBalancer) != "" {
		if err := Main(os.Args[1:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func discard() *log.Logger { return log.New(io.Discard, "", 0) }

// freeAddress returns an address that stays free until the test listens there: others on this machine
// use 127.0.0.1.
func freeAddress(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", fmt.Sprintf("127.%d.%d.%d:0", 1+rand.IntN(250), rand.IntN(250), 1+rand.IntN(250)))
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().String()
}

func writeConfig(t *testing.T, path string, c Config) {
	t.Helper()
	data, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestProgram(t *testing.T) {
	one, two := startServer(t, "one"), startServer(t, "two")
	file := filepath.Join(t.TempDir(), "balancer.json")
	c := Config{Listen: freeAddress(t), Backends: []Backend{one.backend()}, HealthCheck: quick()}
	writeConfig(t, file, c)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	program := exec.Command(self, file)
	program.Env = append(os.Environ(), asBalancer+"=1")
	program.Stderr = os.Stderr
	if err := program.Start(); err != nil {
		t.Fatal(err)
	}
	defer program.Process.Kill()

	answers := func(name string) func() bool {
		return func() bool { got, _ := ask(c.Listen); return got == name }
	}
	eventually(t, "one answers", answers("one"))

	if err := os.WriteFile(file, []byte("not a configuration"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := program.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	eventually(t, "one answers again", answers("one"))

	c.Backends = []Backend{two.backend()}
	writeConfig(t, file, c)
	if err := program.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	eventually(t, "two answers", answers("two"))

	if err := program.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- program.Wait() }()
	select {
	case err := <-ended:
		if err != nil {
			t.Errorf("after SIGTERM: %v", err)
		}
	case <-time.After(20 * time.Second):
		t.Error("it does not end on SIGTERM")
	}
}

func TestProgramRefuses(t *testing.T) {
	dir := t.TempDir()
	unknown := filepath.Join(dir, "unknown.json")
	if err := os.WriteFile(unknown, []byte(`{"listen":"127.0.0.1:0","colour":"red"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	busy := filepath.Join(dir, "busy.json")
	one := startServer(t, "one")
	writeConfig(t, busy, Config{Listen: one.Listener.Addr().String(), HealthCheck: quick()})
	for _, tc := range []struct {
		name string
		args []string
		want string
	}{
		{"no file", nil, "usage"},
		{"a file that is not there", []string{filepath.Join(dir, "none")}, "failed to read the configuration"},
		{"an unknown field", []string{unknown}, `unknown field "colour"`},
		{"a busy address", []string{busy}, "address already in use"},
		{"more words", []string{busy, "more"}, "usage"},
	} {
		if err := Main(tc.args); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %q", tc.name, err, tc.want)
		}
	}
}
