package record

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/klauspost/compress/zstd"
)

// Damage says where and why a record cannot be trusted any further. Everything before it can.
type Damage struct {
	Path   string
	Line   int // counted from 1
	Reason string
}

func (d *Damage) Error() string {
	return fmt.Sprintf("record %s, line %d: %s", d.Path, d.Line, d.Reason)
}

// Reader streams a record. It limits its memory, whatever the file contains.
type Reader struct {
	path   string
	file   *unpacker
	in     *bufio.Reader // of file
	closer io.Closer
	meta   Meta
	sum    chainSum
	// unproven reports whether lines without a checksum came after the last one with one.
	unproven bool
	line     int
	last     Nanos
	ended    bool
	err      error // set once, returned by every later Next
}

// Open opens the record in dir and reads its metadata. It refuses a file that is not a record,
// and a record of another version.
func Open(dir string) (*Reader, error) {
	return open(dir, func(f *os.File) io.Reader { return f })
}

// Follow is Open for a record that is still being written: Next waits for the
// next entry until ctx is done.
func Follow(ctx context.Context, dir string) (*Reader, error) {
	return open(dir, func(f *os.File) io.Reader { return growing{ctx, f} })
}

func open(dir string, in func(*os.File) io.Reader) (*Reader, error) {
	path := filepath.Join(dir, FileName)
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("failed to open record: %w; name the directory that holds %s", err, FileName)
	}
	r, err := NewReader(in(f), path)
	if err != nil {
		f.Close()
		return nil, err
	}
	r.closer = f
	return r, nil
}

// growing is a file that ends only when ctx does.
type growing struct {
	ctx context.Context
	io.Reader
}

func (g growing) Read(p []byte) (int, error) {
	for {
		n, err := g.Reader.Read(p)
		if n > 0 || !errors.Is(err, io.EOF) {
			return n, err
		}
		select {
		case <-g.ctx.Done():
			return 0, g.ctx.Err()
		case <-time.After(flushEvery):
		}
	}
}

// NewReader is Open for a record from elsewhere; path is its name in errors.
func NewReader(in io.Reader, path string) (*Reader, error) {
	file, err := newUnpacker(in)
	if err != nil {
		return nil, fmt.Errorf("failed to read record %s: %w", path, err)
	}
	r := &Reader{path: path, file: file, in: bufio.NewReaderSize(file, 64<<10)}
	if err := r.readMeta(); err != nil {
		file.dec.Close()
		return nil, err
	}
	return r, nil
}

func (r *Reader) readMeta() error {
	sum, text, err := r.readLine()
	if err == nil && sum == (chainSum{}) {
		err = r.damage("the line does not begin with a checksum and a space")
	}
	if err != nil {
		return fmt.Errorf("%w; without its first line a record cannot be used", notEOF(err, r))
	}
	entry, err := parseEntry(text)
	if err == nil && entry.Kind != KindMeta {
		err = fmt.Errorf("the first entry is %q, not %q", entry.Kind, KindMeta)
	}
	if err == nil {
		err = decode(entry.Data, &r.meta)
	}
	if err != nil {
		return fmt.Errorf("%w; without its first line a record cannot be used", r.damage("%v", err))
	}
	if r.meta.Version != Version {
		return fmt.Errorf("record %s has format version %d, this program reads version %d; use the release of holdfast that wrote it (%s)",
			r.path, r.meta.Version, Version, r.meta.Harness)
	}
	r.sum = seedSum(r.meta.Run).next(text)
	switch {
	case r.sum != sum:
		r.err = r.damage("the checksum is %s, the line's content gives %s", sum[:], r.sum[:])
	case r.meta.Run == "":
		r.err = r.damage("the meta data names no run")
	}
	return nil
}

// notEOF turns the end of input in place of a line into damage.
func notEOF(err error, r *Reader) error {
	if errors.Is(err, io.EOF) {
		r.line++
		return r.damage("the record is empty, or this is not a record")
	}
	return err
}

// Meta returns the record's meta data.
func (r *Reader) Meta() Meta { return r.meta }

// Path returns the name of the record's file.
func (r *Reader) Path() string { return r.path }

// Line returns the number of the last line that Next returned.
func (r *Reader) Line() int { return r.line }

// Next returns the next entry after the meta data. It returns io.EOF after the end entry of a
// complete record and a *Damage if the record cannot be trusted any further; other errors are
// those of the file.
func (r *Reader) Next() (Entry, error) {
	if r.err != nil {
		return Entry{}, r.err
	}
	entry, err := r.next()
	if err != nil {
		r.err = err
	}
	return entry, err
}

func (r *Reader) next() (Entry, error) {
	sum, text, err := r.readLine()
	switch {
	case errors.Is(err, io.EOF) && r.ended:
		if err := r.file.checkSeal(); err != nil {
			return Entry{}, r.damage("%v", err)
		}
		return Entry{}, io.EOF
	case errors.Is(err, io.EOF):
		r.line++
		return Entry{}, r.damage("the record ends here without an end entry: the run was cut short or is still running")
	case err != nil:
		return Entry{}, err
	case r.ended:
		return Entry{}, r.damage("there is an entry after the end entry")
	}
	r.sum = r.sum.next(text)
	bare := sum == (chainSum{})
	if !bare && sum != r.sum {
		return Entry{}, r.damage("the checksum is %s, the lines up to here give %s: a line was changed, moved, left out or comes from another record",
			sum[:], r.sum[:])
	}
	r.unproven = bare
	entry, err := parseEntry(text)
	if err != nil {
		return Entry{}, r.damage("%v", err)
	}
	switch {
	case entry.Kind == KindEnd && bare:
		return Entry{}, r.damage("the end entry has no checksum")
	case entry.Kind == KindEnd:
		r.ended = true
	case entry.Kind == KindMeta:
		return Entry{}, r.damage("there is a second meta entry")
	case rowOf(entry.Kind) == nil:
		// Skipping it could hide an observation that contradicts a pass.
		return Entry{}, r.damage("entries of kind %q are unknown in version %d", entry.Kind, Version)
	}
	if entry.At < r.last {
		return Entry{}, r.damage("time goes back from %d to %d", r.last, entry.At)
	}
	r.last = entry.At
	return entry, nil
}

// Close closes the file.
func (r *Reader) Close() error {
	r.file.dec.Close()
	if r.closer == nil {
		return nil
	}
	return r.closer.Close()
}

func (r *Reader) damage(format string, args ...any) *Damage {
	return &Damage{Path: r.path, Line: r.line, Reason: fmt.Sprintf(format, args...)}
}

// readLine returns one line's checksum, zero if it has none, and its JSON, which stays valid until
// the next call, or io.EOF at the end of the lines.
func (r *Reader) readLine() (sum chainSum, text []byte, err error) {
	line, err := r.in.ReadSlice('\n')
	if errors.Is(err, bufio.ErrBufferFull) {
		long := bytes.Clone(line)
		for errors.Is(err, bufio.ErrBufferFull) && len(long) <= maxLine {
			line, err = r.in.ReadSlice('\n')
			long = append(long, line...)
		}
		line = long
	}
	// Decompression stops in the middle if the writer was killed, or is still writing.
	cut := errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
	if cut && len(line) == 0 && r.file.err == nil {
		return sum, nil, io.EOF
	}
	r.line++
	switch {
	case len(line) > maxLine:
		return sum, nil, r.damage("the line is longer than %d MiB", maxLine>>20)
	case r.file.err != nil && err != nil:
		return sum, nil, fmt.Errorf("failed to read record %s, line %d: %w", r.path, r.line, r.file.err)
	case cut:
		return sum, nil, r.damage("the line is cut off after %d bytes: the run was cut short", len(line))
	case errors.Is(err, zstd.ErrMagicMismatch):
		return sum, nil, r.damage("this is not a file of holdfast: it is not compressed with zstd, or something was added to it")
	case err != nil:
		return sum, nil, r.damage("the compressed data is damaged: %v", err)
	}
	sum, text, ok := cutSum(line[:len(line)-1])
	if !ok {
		return sum, nil, r.damage("the line does not begin with a checksum and a space")
	}
	return sum, text, nil
}

func parseEntry(text []byte) (Entry, error) {
	var e Entry
	if err := json.Unmarshal(text, &e); err != nil {
		return Entry{}, fmt.Errorf("not an entry: %w", err)
	}
	return e, nil
}
