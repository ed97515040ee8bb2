package local

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"github.com/holdfast-ha/holdfast/framework"
)

var _ framework.AuditReader = (*node)(nil)

// auditBeat is the time between two looks at an audit log.
const auditBeat = 200 * time.Millisecond

// FollowAudit implements framework.AuditReader.
func (n *node) FollowAudit(ctx context.Context, entry func([]byte)) error {
	path := ""
	for _, c := range n.machine.components() {
		if c.Name == framework.APIServer {
			path = argument(c.Args, "audit-log-path")
		}
	}
	if path == "" || path == "-" {
		return fmt.Errorf("the API server on %s writes no audit log into a file", n.Name())
	}
	t, err := startTail(path)
	if err != nil {
		return fmt.Errorf("following the audit log of %s: %w", n.Name(), err)
	}
	defer t.close()
	beat := time.NewTicker(auditBeat)
	defer beat.Stop()
	for {
		if err := t.read(entry); err != nil {
			return fmt.Errorf("following the audit log of %s: %w", n.Name(), err)
		}
		select {
		case <-beat.C:
		case <-ctx.Done():
			// What the log has by now belongs to the time before.
			return t.read(entry)
		}
	}
}

// tail reads the lines that are added to a file, also after the file was renamed
// and another started in its place.
type tail struct {
	path string
	file *os.File // nil where there is none yet
	part []byte   // a line whose end is not there yet
	buf  []byte
}

// startTail begins at the end of the file, or at the begin of one that is not there
// yet.
func startTail(path string) (*tail, error) {
	t := &tail{path: path, buf: make([]byte, 256<<10)}
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return t, nil
	}
	if err != nil {
		return nil, err
	}
	t.file = f
	// The last line may be half written: what is left of it is not an entry.
	end, err := f.Seek(0, io.SeekEnd)
	if err == nil && end > 0 {
		last := []byte{0}
		if _, err = f.ReadAt(last, end-1); err == nil && last[0] != '\n' {
			t.part = []byte("…") // no JSON begins like this
		}
	}
	if err != nil {
		t.close()
	}
	return t, err
}

// read hands over all whole lines up to the present end.
func (t *tail) read(line func([]byte)) error {
	for {
		if t.file == nil {
			f, err := os.Open(t.path)
			if errors.Is(err, fs.ErrNotExist) {
				return nil
			}
			if err != nil {
				return err
			}
			t.file = f
		}
		// Looked at before the rest is read: what is written into the old file
		// after it was renamed is read too.
		replaced, err := t.replaced()
		if err != nil {
			return err
		}
		if err := t.drain(line); err != nil {
			return err
		}
		if !replaced {
			return nil
		}
		t.close()
		t.file, t.part = nil, nil
	}
}

// replaced reports whether the path leads to another file by now.
func (t *tail) replaced() (bool, error) {
	now, err := os.Stat(t.path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil // between the renaming and the new file
	}
	if err != nil {
		return false, err
	}
	mine, err := t.file.Stat()
	if err != nil {
		return false, err
	}
	return !os.SameFile(now, mine), nil
}

func (t *tail) drain(line func([]byte)) error {
	for {
		n, err := t.file.Read(t.buf)
		rest := t.buf[:n]
		for {
			i := bytes.IndexByte(rest, '\n')
			if i < 0 {
				break
			}
			whole := rest[:i]
			if len(t.part) > 0 {
				whole = append(t.part, whole...)
				t.part = t.part[:0]
			}
			line(whole)
			rest = rest[i+1:]
		}
		t.part = append(t.part, rest...)
		if errors.Is(err, io.EOF) || n == 0 && err == nil {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func (t *tail) close() {
	if t.file != nil {
		_ = t.file.Close() // it was only read
	}
}
