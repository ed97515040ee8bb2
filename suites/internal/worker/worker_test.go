package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/clusters"
)

func TestMain(m *testing.M) {
	if slices.Equal(os.Args[1:], []string{replacing}) {
		replaceMyself()
	}
	Main("test-worker", func(args []string) (Handler, error) {
		if args[0] == "refuse" {
			return nil, errors.New("no work today")
		}
		return &handler{file: args[0]}, nil
	})
	os.Exit(m.Run())
}

// replacing is the argument of a copy of this program that replaces its own file.
const replacing = "test-replacing"

func replaceMyself() {
	path, err := os.Executable()
	unchanged := Unchanged()
	if err == nil {
		err = os.Remove(path) // as go build does
	}
	if err == nil {
		err = os.WriteFile(path, []byte("another build"), 0o700)
	}
	if err == nil {
		_, err = Start(here{}, path+".log", "test-worker", path+".closed")
	}
	fmt.Println(unchanged, err)
	os.Exit(0)
}

// TestReplaced: no worker is started from a file that was replaced since this program was: it would be
// another build under the version of the run.
func TestReplaced(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "program")
	text, err := os.ReadFile(exe)
	if err == nil {
		err = os.WriteFile(path, text, 0o700)
	}
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(path, replacing).CombinedOutput()
	if want := "<nil> " + path + " was replaced since this run started"; err != nil || !strings.HasPrefix(string(out), want) {
		t.Errorf("%v, %s, want %s", err, out, want)
	}
}

// handler handles the requests of the test.
type handler struct {
	file  string
	count int
}

func (h *handler) Handle(ctx context.Context, request json.RawMessage, say func(any)) (any, error) {
	var what string
	if err := json.Unmarshal(request, &what); err != nil {
		return nil, err
	}
	h.count++
	switch what {
	case "fail":
		return nil, errors.New("it failed")
	case "die":
		println("out of luck")
		os.Exit(7)
	case "wait":
		say("waiting")
		<-ctx.Done()
		return context.Cause(ctx).Error(), nil
	}
	say("first")
	say("second")
	return map[string]int{what: h.count}, nil
}

func (h *handler) Close(context.Context) error {
	if h.file == "stubborn" {
		return errors.New("it would not go")
	}
	return os.WriteFile(h.file, []byte("closed"), 0o600)
}

// here runs workers without a sandbox.
type here struct{ clusters.Provider }

func start(t *testing.T, arg string) *Worker {
	t.Helper()
	w, err := Start(here{}, filepath.Join(t.TempDir(), "log"), "test-worker", arg)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func TestDo(t *testing.T) {
	file := filepath.Join(t.TempDir(), "closed")
	w := start(t, file)
	var said []string
	note := func(e json.RawMessage) { said = append(said, string(e)) }
	for i := range 3 {
		said = nil
		var reply map[string]int
		if err := w.Do(t.Context(), "count", note, &reply); err != nil || reply["count"] != i+1 {
			t.Fatalf("%v, %v", reply, err)
		}
		if strings.Join(said, " ") != `"first" "second"` {
			t.Errorf("events %v", said)
		}
	}
	if err := w.Do(t.Context(), "fail", note, new(any)); !errors.Is(err, Failed("it failed")) {
		t.Errorf("%v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var reply string
	if err := w.Do(ctx, "wait", func(json.RawMessage) { cancel() }, &reply); err != nil || reply != errInterrupted.Error() {
		t.Errorf("%q, %v", reply, err)
	}
	// A late interrupt does not affect the next request.
	if err := w.order(order{Number: w.number}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel = context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := w.Do(ctx, "wait", note, &reply); err != nil || ctx.Err() == nil {
		t.Errorf("%v before its time", err)
	}
	if err := w.Close(); err != nil {
		t.Error(err)
	}
	if b, err := os.ReadFile(file); err != nil || string(b) != "closed" {
		t.Errorf("%q, %v", b, err)
	}
}

func TestWorkerDies(t *testing.T) {
	w := start(t, "unused")
	err := w.Do(t.Context(), "die", func(json.RawMessage) {}, new(any))
	if err == nil || errors.As(err, new(Failed)) || !strings.Contains(err.Error(), "exit status 7; its last output: out of luck") {
		t.Errorf("%v", err)
	}
	if err := w.Close(); err != nil {
		t.Errorf("closing what is dead: %v", err)
	}
	w = start(t, "refuse")
	if err := w.Do(t.Context(), "count", func(json.RawMessage) {}, new(any)); err == nil || !strings.Contains(err.Error(), "no work today") {
		t.Errorf("%v", err)
	}
	w = start(t, "stubborn")
	if err := w.Close(); err == nil || !strings.Contains(err.Error(), "it would not go") {
		t.Errorf("%v", err)
	}
}

// TestOrphaned closes the pipe in the middle of a request, as when the program dies.
func TestOrphaned(t *testing.T) {
	file := filepath.Join(t.TempDir(), "closed")
	w := start(t, file)
	said := make(chan bool, 1)
	done := make(chan error, 1)
	var reply string
	go func() { done <- w.Do(t.Context(), "wait", func(json.RawMessage) { said <- true }, &reply) }()
	<-said
	if err := w.requests.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil || reply != errOrphaned.Error() {
		t.Errorf("%q, %v", reply, err)
	}
	if err := w.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(file); err != nil {
		t.Errorf("it did not clean up: %v", err)
	}
}
