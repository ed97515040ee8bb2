package record

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/holdfast-ha/holdfast/framework/redact"
)

const (
	// flushEvery limits how much a killed harness can lose.
	flushEvery = 100 * time.Millisecond
	// flushSize is how many buffered bytes wake the flusher early.
	flushSize = 64 << 10
	// bufferLimit is the buffer size at which a slow disk becomes an error, so that the record
	// does not fill the memory of the machine under test.
	bufferLimit = 256 << 20
)

// ErrClosed is returned by Append after Close.
var ErrClosed = errors.New("record is closed")

// file is what a Writer needs from an *os.File.
type file interface {
	io.Writer
	Sync() error
	Close() error
}

// Writer appends entries to a record. Its methods may be called concurrently.
type Writer struct {
	path  string
	start time.Time
	out   file
	lines io.WriteCloser // packs lines into out

	secrets *redact.Redactor // of the texts of entries

	wake chan struct{} // wakes the flusher for much data, or for urgent data
	stop chan struct{}
	done chan struct{} // closed when the flusher has exited

	mu     sync.Mutex
	buf    []byte // lines not yet written to the file
	spare  []byte // the flusher's other buffer
	sum    chainSum
	last   Nanos
	err    error // the first error; nothing is appended after it
	closed bool
}

// Create starts a record in dir, which it creates if needed. It sets meta's Version and Started:
// the moment of Create is Nanos 0. It never overwrites an existing record.
func Create(dir string, meta Meta) (*Writer, error) {
	path := filepath.Join(dir, FileName)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("failed to create record %s: %w; name another results directory", path, err)
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL|os.O_APPEND, 0o644)
	if errors.Is(err, os.ErrExist) {
		return nil, fmt.Errorf("failed to create record %s: %w; a record is never overwritten: name another results directory", path, err)
	}
	if err != nil {
		return nil, fmt.Errorf("failed to create record: %w; name another results directory", err)
	}
	w, err := newWriter(f, path, meta)
	if err != nil {
		// The file holds nothing useful; leaving it would block the next try.
		return nil, errors.Join(err, f.Close(), os.Remove(path))
	}
	return w, nil
}

func newWriter(out file, path string, meta Meta) (*Writer, error) {
	lines, err := newPacker(out)
	if err != nil {
		return nil, fmt.Errorf("failed to create record %s: %w", path, err)
	}
	return startWriter(out, lines, path, meta)
}

func startWriter(out file, lines io.WriteCloser, path string, meta Meta) (*Writer, error) {
	if meta.Run == "" {
		return nil, fmt.Errorf("failed to create record %s: the meta data names no run", path)
	}
	w := &Writer{
		path: path, start: time.Now(), out: out, lines: lines, sum: seedSum(meta.Run), secrets: redact.New(),
		wake: make(chan struct{}, 1), stop: make(chan struct{}), done: make(chan struct{}),
	}
	meta.Version = Version
	meta.Started = w.start.UTC()
	data, err := json.Marshal(meta)
	if err != nil {
		return nil, fmt.Errorf("failed to encode the meta data of record %s: %w", path, err)
	}
	w.add(KindMeta, data)
	// Flush immediately: it is better to notice a full disk before the faults.
	w.flush()
	if w.err != nil {
		return nil, w.err
	}
	go w.run()
	return w, nil
}

// Now returns the current time of the record's clock.
func (w *Writer) Now() Nanos { return Nanos(time.Since(w.start)) }

// Since returns t on the record's clock. It is exact for times with a monotonic reading, such as
// those from time.Now.
func (w *Writer) Since(t time.Time) Nanos { return Nanos(t.Sub(w.start)) }

// Append adds an entry, stamped with the current time, without possible secrets in its texts. v is
// a value of the type that belongs to kind. Append does no I/O itself. Its error is that of an earlier write, or of a value that no
// line can hold; Close returns it too.
func (w *Writer) Append(kind Kind, v any) error {
	data, err := w.encode(kind, v)
	if err != nil {
		err = fmt.Errorf("failed to append to record %s: %w", w.path, err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.closed:
		return fmt.Errorf("failed to append to record %s: %w", w.path, ErrClosed)
	case w.err != nil:
		return w.err
	case err != nil:
		// A record without an entry must not look complete.
		w.err = err
		return err
	case len(w.buf) > bufferLimit:
		w.err = fmt.Errorf("failed to write record %s: the disk does not keep up (%d MiB are waiting); name a results directory on a faster disk with --out",
			w.path, bufferLimit>>20)
		return w.err
	}
	w.add(kind, data)
	if len(w.buf) >= flushSize || kind == KindFault || kind == KindPhase {
		select {
		case w.wake <- struct{}{}:
		default:
		}
	}
	return nil
}

// Err returns the first error of the record so far: entries appended since then are lost.
func (w *Writer) Err() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err
}

func (w *Writer) encode(kind Kind, v any) ([]byte, error) {
	r := rowOf(kind)
	if r == nil || !r.holds(v) {
		return nil, fmt.Errorf("an entry of kind %q cannot hold a %T", kind, v)
	}
	data, err := json.Marshal(r.reworded(v, w.secrets.Text))
	if err != nil {
		return nil, fmt.Errorf("failed to encode %T: %w", v, err)
	}
	if len(data) > maxLine-lineExtra {
		return nil, fmt.Errorf("a %T of %d MiB is too long for a line, which may have %d MiB", v, len(data)>>20, maxLine>>20)
	}
	return data, nil
}

// add puts one line into the buffer. The lock is held, or w is not yet shared.
func (w *Writer) add(kind Kind, data []byte) {
	if now := w.Now(); now > w.last {
		w.last = now
	}
	if kind == KindMeta {
		w.last = 0
	}
	begin := len(w.buf)
	w.buf = append(w.buf, "00000000 {\"t\":"...)
	w.buf = strconv.AppendInt(w.buf, int64(w.last), 10)
	w.buf = append(w.buf, ",\"k\":\""...)
	w.buf = append(w.buf, kind...)
	w.buf = append(w.buf, "\",\"d\":"...)
	w.buf = append(w.buf, data...)
	w.buf = append(w.buf, '}')
	w.sum = w.sum.next(w.buf[begin+sumLen+1:])
	copy(w.buf[begin:], w.sum[:])
	w.buf = append(w.buf, '\n')
}

func (w *Writer) run() {
	defer close(w.done)
	tick := time.NewTicker(flushEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-w.wake:
		case <-w.stop:
			return
		}
		w.flush()
	}
}

// flush compresses the buffer and writes it to the file. Only one goroutine at a time calls it,
// without the lock.
func (w *Writer) flush() {
	w.mu.Lock()
	full := w.buf
	w.buf, w.spare = w.spare[:0], nil
	w.mu.Unlock()

	var err error
	if len(full) > 0 {
		_, err = w.lines.Write(full)
	}

	w.mu.Lock()
	defer w.mu.Unlock()
	w.spare = full[:0]
	if err != nil && w.err == nil {
		w.err = w.writeError(err)
	}
}

func (w *Writer) writeError(err error) error {
	return fmt.Errorf("failed to write record %s: %w; make room there or name another results directory", w.path, err)
}

// Close ends the record with end, writes the buffer to the disk and returns the first error of
// the record's life. If an error lost an entry, end names it as well. Calling it again returns
// the same error.
func (w *Writer) Close(end End) error {
	w.mu.Lock()
	if w.closed {
		w.mu.Unlock()
		<-w.done
		w.mu.Lock()
		defer w.mu.Unlock()
		return w.err
	}
	w.closed = true
	if w.err != nil && end.Error == "" {
		end.Error = w.err.Error()
	}
	end.reword(w.secrets.Text)
	data, err := json.Marshal(end)
	if err != nil && w.err == nil {
		w.err = fmt.Errorf("failed to encode the end of record %s: %w", w.path, err)
	}
	w.add(KindEnd, data)
	w.mu.Unlock()

	close(w.stop)
	<-w.done
	w.flush()
	perr := w.lines.Close()
	serr := w.out.Sync()
	cerr := w.out.Close()

	w.mu.Lock()
	defer w.mu.Unlock()
	for _, err := range []error{perr, serr, cerr} {
		if err != nil && w.err == nil {
			w.err = w.writeError(err)
		}
	}
	return w.err
}
