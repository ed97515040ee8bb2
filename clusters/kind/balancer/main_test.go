package balancer

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	proxy "github.com/holdfast-ha/holdfast/clusters/local/balancer"
)

func TestMain(m *testing.M) {
	Reexec()
	os.Exit(m.Run())
}

// apiServer answers /healthz, and everything else with its name.
func apiServer(t *testing.T, name string) (address string, checks *atomic.Int64) {
	t.Helper()
	checks = new(atomic.Int64)
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/healthz":
			checks.Add(1)
		case "/readyz":
			t.Error("it asks for /readyz, kind told it to ask for /healthz")
		default:
			fmt.Fprint(w, name)
		}
	}))
	t.Cleanup(s.Close)
	return s.Listener.Addr().String(), checks
}

// freeAddress returns an address that stays free until the test listens there: others on this machine
// use 127.0.0.1.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", fmt.Sprintf("127.%d.%d.%d:0", 1+rand.IntN(250), rand.IntN(250), 1+rand.IntN(250)))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// home is /home/envoy in the container, and what kind does there.
type home struct {
	*testing.T
	dir string
}

// put writes a file as kind does: beside, then moved into place.
func (h home) put(name, text string) {
	h.Helper()
	file := filepath.Join(h.dir, name)
	if err := os.WriteFile(file+".tmp", []byte(text), 0o666); err != nil {
		h.Fatal(err)
	}
	if err := os.Rename(file+".tmp", file); err != nil {
		h.Fatal(err)
	}
}

func socket(text, was, address string) string {
	host, port, _ := strings.Cut(address, ":")
	wasHost, wasPort, _ := strings.Cut(was, ":")
	old := fmt.Sprintf("address: %s\n              port_value: %s", wasHost, wasPort)
	return strings.Replace(text, old, fmt.Sprintf("address: %s\n              port_value: %s", host, port), 1)
}

func (h home) listen(address string) {
	host, port, _ := strings.Cut(address, ":")
	h.put("lds.yaml", strings.NewReplacer("0.0.0.0", host, "6443", port).Replace(string(read(h.T, "lds.yaml"))))
}

func (h home) servers(one, two string) {
	text := socket(string(read(h.T, "cds.yaml")), "ha-control-plane:6443", one)
	text = socket(text, "ha-control-plane2:6443", two)
	h.put("cds.yaml", strings.Replace(text, "interval: 2s", "interval: 200ms", 1))
}

// ask sends a request through the balancer on a connection of its own.
func ask(ctx context.Context, address string) (string, error) {
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true}}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+address+"/", nil)
	if err != nil {
		return "", err
	}
	response, err := client.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return string(body), err
}

// eventually asks until the answers are those wanted.
func (h home) eventually(address string, want ...string) {
	h.Helper()
	deadline := time.Now().Add(30 * time.Second)
	got, last := map[string]bool{}, error(nil)
	for time.Now().Before(deadline) {
		clear(got)
		for range 4 {
			answer, err := ask(h.Context(), address)
			if last = err; err == nil {
				got[answer] = true
			}
		}
		all := len(got) == len(want)
		for _, w := range want {
			all = all && got[w]
		}
		if all {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
	h.Fatalf("%s answers %v (%v), want %v", address, got, last, want)
}

// The program as kind uses it: started without a configuration, then given one,
// then another.
func TestProgram(t *testing.T) {
	h := home{t, t.TempDir()}
	one, checks := apiServer(t, "one")
	two, _ := apiServer(t, "two")
	dead, address, moved, status := freeAddress(t), freeAddress(t), freeAddress(t), freeAddress(t)
	text := strings.ReplaceAll(string(read(t, "envoy.yaml")), "/home/envoy", h.dir)
	host, port, _ := strings.Cut(status, ":")
	h.put("envoy.yaml", strings.NewReplacer("0.0.0.0", host, "10000", port).Replace(text))
	h.put("cds.yaml", "resources: []")
	h.put("lds.yaml", "resources: []")

	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	program := exec.Command(self, "-c", filepath.Join(h.dir, "envoy.yaml"))
	program.Args[0] = "/usr/local/bin/" + Program
	stderr, err := program.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := program.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = program.Process.Kill() }()
	said := bufio.NewReader(stderr)
	if line, err := said.ReadString('\n'); err != nil || !strings.Contains(line, "nothing to listen on yet") {
		t.Errorf("before it is configured it says %q, %v", line, err)
	}

	h.servers(one, dead)
	h.listen(address)
	h.eventually(address, "one")
	if checks.Load() == 0 {
		t.Error("it did not check the API server")
	}
	h.servers(one, two)
	h.eventually(address, "one", "two")

	// What cannot be read changes nothing.
	h.put("cds.yaml", "resources: [{}, {}]")
	h.listen(moved)
	time.Sleep(2 * beat)
	h.eventually(address, "one", "two")
	h.servers(two, dead)
	h.eventually(moved, "two")

	response, err := http.Get("http://" + status + "/")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	var s proxy.Status
	if err := json.NewDecoder(response.Body).Decode(&s); err != nil || len(s.Backends) != 2 {
		t.Errorf("status = %+v, %v", s, err)
	}

	if err := program.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	log, err := io.ReadAll(said)
	if err != nil {
		t.Error(err)
	}
	if err := program.Wait(); err != nil {
		t.Errorf("it ended with %v", err)
	}
	for _, want := range []string{"serving on " + address + " for 2 API servers", "keeping the old configuration"} {
		if !strings.Contains(string(log), want) {
			t.Errorf("its log does not say %q:\n%s", want, log)
		}
	}
}

func TestProgramWrongUse(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"--version"}, 0, Banner},
		{nil, 2, "want -c FILE"},
		{[]string{"--bogus"}, 2, "bogus"},
		{[]string{"-c", filepath.Join(t.TempDir(), "missing")}, 1, "failed to read the configuration"},
	} {
		program := exec.Command(self, test.args...)
		program.Args[0] = Program
		out, _ := program.CombinedOutput()
		if code := program.ProcessState.ExitCode(); code != test.code || !strings.Contains(string(out), test.want) {
			t.Errorf("envoy %v: exit code %d, %q; want %d and %q", test.args, code, out, test.code, test.want)
		}
	}
}
