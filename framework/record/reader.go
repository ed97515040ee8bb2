package record

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// Damage says where and why a record cannot be trusted any further. What came
// before it can.
type Damage struct {
	Path   string
	Line   int // counted from 1
	Reason string
}

func (d *Damage) Error() string {
	return fmt.Sprintf("record %s, line %d: %s", d.Path, d.Line, d.Reason)
}

// Reader streams a record.
type Reader struct {
	path   string
	in     *bufio.Reader
	closer io.Closer
	meta   Meta
	sum    chainSum
	line   int
	last   Nanos
	ended  bool
	err    error // set once, returned by every later Next
}

// Open opens the record in dir and reads its meta data. It refuses what is not
// a record, and a record of another version.
func Open(dir string) (*Reader, error) {
	path := filepath.Join(dir, FileName)
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("open record: %w; name the directory that holds %s", err, FileName)
	}
	r, err := NewReader(f, path)
	if err != nil {
		f.Close()
		return nil, err
	}
	r.closer = f
	return r, nil
}

// NewReader is Open for a record that comes from elsewhere; path is the name
// for it in errors.
func NewReader(in io.Reader, path string) (*Reader, error) {
	r := &Reader{path: path, in: bufio.NewReaderSize(in, 64<<10)}
	sum, text, err := r.readLine()
	if err != nil {
		return nil, fmt.Errorf("%w; without its first line a record cannot be used", notEOF(err, r))
	}
	entry, err := parseEntry(text)
	if err == nil && entry.Kind != KindMeta {
		err = fmt.Errorf("the first entry is %q, not %q", entry.Kind, KindMeta)
	}
	if err == nil {
		err = decode(entry.Data, &r.meta)
	}
	if err != nil {
		return nil, fmt.Errorf("%w; without its first line a record cannot be used", r.damage("%v", err))
	}
	if r.meta.Version != Version {
		return nil, fmt.Errorf("record %s has format version %d, this program reads version %d; use the release of holdfast that wrote it (%s)",
			path, r.meta.Version, Version, r.meta.Harness)
	}
	r.sum = seedSum(r.meta.Run).next(text)
	switch {
	case r.sum != sum:
		r.err = r.damage("the checksum is %s, the line's content gives %s", sum[:], r.sum[:])
	case r.meta.Run == "":
		r.err = r.damage("the meta data names no run")
	}
	return r, nil
}

// notEOF turns the end of input where a line had to be into damage.
func notEOF(err error, r *Reader) error {
	if errors.Is(err, io.EOF) {
		r.line++
		return r.damage("the record is empty")
	}
	return err
}

// Meta returns the record's meta data.
func (r *Reader) Meta() Meta { return r.meta }

// Line returns the number of the line that Next returned last.
func (r *Reader) Line() int { return r.line }

// Next returns the next entry after the meta data. It returns io.EOF after the
// end entry of a complete record and a *Damage where the record cannot be
// trusted any further; other errors are those of the file.
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
		return Entry{}, io.EOF
	case errors.Is(err, io.EOF):
		r.line++
		return Entry{}, r.damage("the record ends here without an end entry: the run was cut short")
	case err != nil:
		return Entry{}, err
	case r.ended:
		return Entry{}, r.damage("there is an entry after the end entry")
	}
	r.sum = r.sum.next(text)
	if sum != r.sum {
		return Entry{}, r.damage("the checksum is %s, the lines up to here give %s: a line was changed, moved, left out or comes from another record",
			sum[:], r.sum[:])
	}
	entry, err := parseEntry(text)
	if err != nil {
		return Entry{}, r.damage("%v", err)
	}
	switch entry.Kind {
	case KindOp, KindProbe, KindEndpoints, KindLease, KindEtcd, KindProcess, KindFault, KindSteady, KindPhase, KindHarness,
		KindList, KindWatch, KindEvent, KindAction, KindBackend:
	case KindEnd:
		r.ended = true
	case KindMeta:
		return Entry{}, r.damage("there is a second meta entry")
	default:
		// To skip it could hide an observation that speaks against a pass.
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
	if r.closer == nil {
		return nil
	}
	return r.closer.Close()
}

func (r *Reader) damage(format string, args ...any) *Damage {
	return &Damage{Path: r.path, Line: r.line, Reason: fmt.Sprintf(format, args...)}
}

// readLine returns one line's checksum and JSON, which stay valid until the
// next call, or io.EOF where the input ends between two lines.
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
	if errors.Is(err, io.EOF) && len(line) == 0 {
		return sum, nil, io.EOF
	}
	r.line++
	switch {
	case len(line) > maxLine:
		return sum, nil, r.damage("the line is longer than %d MiB", maxLine>>20)
	case errors.Is(err, io.EOF):
		return sum, nil, r.damage("the line is cut off after %d bytes: the run was cut short", len(line))
	case err != nil:
		return sum, nil, fmt.Errorf("read record %s, line %d: %w", r.path, r.line, err)
	}
	line = line[:len(line)-1]
	if len(line) < sumLen+1 || line[sumLen] != ' ' {
		return sum, nil, r.damage("the line does not begin with a checksum and a space")
	}
	copy(sum[:], line)
	return sum, line[sumLen+1:], nil
}

func parseEntry(text []byte) (Entry, error) {
	var e Entry
	if err := json.Unmarshal(text, &e); err != nil {
		return Entry{}, fmt.Errorf("not an entry: %w", err)
	}
	return e, nil
}

func decode(data json.RawMessage, v any) error {
	if len(data) == 0 || bytes.Equal(data, []byte("null")) {
		return errors.New("the entry holds no data")
	}
	if err := json.Unmarshal(data, v); err != nil {
		return fmt.Errorf("the entry's data does not fit its kind: %w", err)
	}
	return nil
}
