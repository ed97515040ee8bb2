// Package worker runs parts of a program in separate processes: copies of the program that a
// provider starts where it can create clusters, such as in a sandbox.
//
// The program calls Main first, and Start for each worker. The two exchange lines of JSON over a
// pair of pipes: a worker answers one request after another, and sends events while it handles
// one. It exits when the pipe of requests is closed, at the latest when the program dies.
package worker

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/holdfast-ha/holdfast/clusters"
)

// pipesEnv has the descriptors of a worker's pipes: requests, then answers.
const pipesEnv = "HOLDFAST_WORKER_PIPES"

// Handler does the work of a worker.
type Handler interface {
	// Handle answers a request. Interrupting the worker cancels ctx. Say sends an event.
	Handle(ctx context.Context, request json.RawMessage, say func(event any)) (reply any, err error)
	// Close cleans up when no more requests follow.
	Close(context.Context) error
}

// order is one line to a worker: a request with its number or, without a request, an interrupt
// for the request with that number.
type order struct {
	Number  int             `json:"number"`
	Request json.RawMessage `json:"request,omitempty"`
}

// line is one line from a worker: exactly one field is set.
type line struct {
	Event json.RawMessage `json:"event,omitempty"`
	Reply json.RawMessage `json:"reply,omitempty"`
	Error string          `json:"error,omitempty"`
}

// Main turns this process into a worker if it was started as one with that name: it serves with
// the handler that open returns for the arguments of Start, and exits. Otherwise it returns.
func Main(name string, open func(args []string) (Handler, error)) {
	if len(os.Args) < 2 || os.Args[1] != name {
		return
	}
	var r, w int
	if n, err := fmt.Sscanf(os.Getenv(pipesEnv), "%d,%d", &r, &w); err != nil || n != 2 {
		fmt.Fprintf(os.Stderr, "holdfast: only holdfast itself starts %s\n", name)
		os.Exit(2)
	}
	if err := runWorker(r, w, os.Args[2:], open); err != nil {
		fmt.Fprintf(os.Stderr, "holdfast: %v\n", err)
		os.Exit(3)
	}
	os.Exit(0)
}

func runWorker(r, w int, args []string, open func(args []string) (Handler, error)) error {
	unix.CloseOnExec(r)
	unix.CloseOnExec(w)
	h, err := open(args)
	if err != nil {
		return err
	}
	return serve(os.NewFile(uintptr(r), "requests"), os.NewFile(uintptr(w), "answers"), h)
}

// serve answers requests until the pipe is closed.
func serve(r io.Reader, w io.Writer, h Handler) error {
	requests := make(chan request)
	go receive(r, requests)
	out := json.NewEncoder(w)
	var mu sync.Mutex
	say := func(l line) {
		mu.Lock()
		defer mu.Unlock()
		_ = out.Encode(l) // if the reader is gone, no more requests follow
	}
	event := func(e any) {
		if b, err := json.Marshal(e); err == nil {
			say(line{Event: b})
		}
	}
	for one := range requests {
		reply, err := h.Handle(one.ctx, one.body, event)
		b, encoding := json.Marshal(reply)
		if err = errors.Join(err, encoding); err != nil {
			say(line{Error: err.Error()})
		} else {
			say(line{Reply: b})
		}
	}
	return h.Close(context.Background())
}

// request is a request to a worker.
type request struct {
	ctx  context.Context
	body json.RawMessage
}

var (
	errInterrupted = errors.New("the run was stopped")
	errOrphaned    = errors.New("the program that started this worker has exited")
)

// receive forwards requests, and interrupts them, until the pipe is closed.
func receive(r io.Reader, requests chan<- request) {
	all, orphan := context.WithCancelCause(context.Background())
	defer orphan(nil)
	defer close(requests)
	var current int
	interrupt := func(error) {}
	for in := json.NewDecoder(bufio.NewReader(r)); ; {
		var o order
		switch err := in.Decode(&o); {
		case err != nil:
			orphan(errOrphaned)
			return
		case o.Request == nil:
			if o.Number == current {
				interrupt(errInterrupted)
			}
			continue
		}
		ctx, cancel := context.WithCancelCause(all)
		current, interrupt = o.Number, cancel
		requests <- request{ctx, o.Request}
	}
}

// Worker is a started worker.
type Worker struct {
	cmd      *exec.Cmd
	log      *os.File
	requests *os.File
	out      *os.File
	answers  *json.Decoder
	mu       sync.Mutex // held to write a request
	number   int        // of the last request
}

// Failed is an error from a Handler, as opposed to one of the worker itself.
type Failed string

func (f Failed) Error() string { return string(f) }

// Start starts a worker with a name in a place where the provider can create clusters. Its output
// is appended to the file log.
func Start(p clusters.Provider, log, name string, args ...string) (_ *Worker, err error) {
	if err := Unchanged(); err != nil {
		return nil, err
	}
	w := &Worker{}
	var theirs []*os.File
	defer func() {
		for _, f := range theirs {
			_ = f.Close()
		}
		if err != nil {
			w.release()
		}
	}()
	if w.log, err = os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644); err != nil {
		return nil, fmt.Errorf("failed to create the log of a worker: %w", err)
	}
	// Do interrupts single requests; the worker itself runs until Close.
	if w.cmd, err = clusters.Command(context.Background(), p, append([]string{name}, args...)...); err != nil {
		return nil, err
	}
	in, requests, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	w.requests, theirs = requests, append(theirs, in)
	out, answers, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	w.out, theirs = out, append(theirs, answers)
	w.answers = json.NewDecoder(bufio.NewReader(out))
	w.cmd.Stdout, w.cmd.Stderr = w.log, w.log
	w.cmd.ExtraFiles = append(w.cmd.ExtraFiles, in, answers)
	if w.cmd.Env == nil {
		w.cmd.Env = os.Environ()
	}
	last := 2 + len(w.cmd.ExtraFiles)
	w.cmd.Env = append(w.cmd.Env, pipesEnv+"="+strconv.Itoa(last-1)+","+strconv.Itoa(last))
	if err := w.cmd.Start(); err != nil {
		return nil, clusters.Explain(p, fmt.Errorf("failed to start a worker: %w", err))
	}
	return w, nil
}

// Unchanged returns an error if the file of this program was replaced since it started: what is copied
// to nodes from the file now is another build, under the version of this run.
func Unchanged() error {
	path, err := os.Executable()
	if err != nil {
		return err
	}
	runs, err := os.Stat("/proc/self/exe")
	if err != nil {
		return err
	}
	if now, err := os.Stat(path); err != nil || !os.SameFile(runs, now) {
		return fmt.Errorf("%s was replaced since this run started, and its agents would be another build: put the old one back and continue, or start a new run", path)
	}
	return nil
}

// Process is the worker's process.
func (w *Worker) Process() *os.Process { return w.cmd.Process }

// Do sends a request to the worker and returns its answer in reply. It passes events to event as
// they arrive. When ctx is done, Do interrupts the worker and returns its answer to that. A
// Failed comes from the handler; after any other error the worker is unusable.
func (w *Worker) Do(ctx context.Context, request any, event func(json.RawMessage), reply any) error {
	body, err := json.Marshal(request)
	if err != nil {
		return fmt.Errorf("failed to encode a request: %w", err)
	}
	w.number++
	mine := w.number
	if err := w.order(order{mine, body}); err != nil {
		return w.died(err)
	}
	stop := context.AfterFunc(ctx, func() { _ = w.order(order{Number: mine}) })
	defer stop()
	for {
		var l line
		if err := w.answers.Decode(&l); err != nil {
			return w.died(err)
		}
		switch {
		case l.Event != nil:
			event(l.Event)
		case l.Error != "":
			return Failed(l.Error)
		default:
			return json.Unmarshal(l.Reply, reply)
		}
	}
}

func (w *Worker) order(o order) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return json.NewEncoder(w.requests).Encode(o)
}

// died describes how a worker that does not respond died.
func (w *Worker) died(cause error) error {
	_ = w.cmd.Process.Kill()
	err := w.cmd.Wait()
	if errors.Is(cause, io.EOF) || errors.Is(cause, syscall.EPIPE) {
		cause = err
	}
	return fmt.Errorf("the worker died: %w; its last output: %s", cause, lastLines(w.log.Name()))
}

// Close lets the worker clean up and exit, and waits for it.
func (w *Worker) Close() error {
	defer w.release()
	if w.cmd.ProcessState != nil {
		return nil // it died, and Do has reported that
	}
	_ = w.requests.Close()
	_, _ = io.Copy(io.Discard, w.out) // a full pipe must not block the worker
	if err := w.cmd.Wait(); err != nil {
		return fmt.Errorf("the worker failed to clean up: %w; its last output: %s", err, lastLines(w.log.Name()))
	}
	return nil
}

func (w *Worker) release() {
	for _, f := range []*os.File{w.log, w.requests, w.out} {
		if f != nil {
			_ = f.Close()
		}
	}
}

func lastLines(path string) string {
	b, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(b)), "\n")
	return strings.Join(lines[max(0, len(lines)-5):], "\n")
}
