package agent

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/holdfast-ha/holdfast/clusters/agenthttp"
)

// A client follows a log by repeatedly asking for what comes after a position, so it loses
// nothing when the agent or the whole node goes down in between. The file identifies the
// position, not its name: logs are rotated by renaming.

// place is a position in a log.
type place struct {
	Inode  uint64 `json:"inode"`
	Offset int64  `json:"offset"`
}

// entries are whole lines of a log, and the place after them.
type entries struct {
	place
	Lines []byte `json:"lines,omitempty"`
}

// auditChunk is the most log that one answer contains, unless one line is longer.
const auditChunk = 1 << 20

// audit returns the place of the log's end or, given a place, whole lines from there on.
func (a *agent) audit(_ context.Context, r request) (any, error) {
	if a.config.Audit == "" {
		return nil, agenthttp.Unsupported("no API server writes an audit log here")
	}
	var e entries
	var err error
	if r.From != nil {
		e.Lines, e.place, err = readLog(a.config.Audit, *r.From)
	} else {
		e.place, err = endOf(a.config.Audit)
	}
	if err != nil {
		return nil, fmt.Errorf("failed to read the audit log: %w", err)
	}
	return e, nil
}

// endOf returns the place after the last whole line of a log. The zero place is the start of a
// log that does not exist yet.
func endOf(path string) (place, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return place{}, nil
	}
	if err != nil {
		return place{}, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return place{}, err
	}
	end := info.Size()
	for buf := make([]byte, 64<<10); end > 0; {
		n := min(int64(len(buf)), end)
		if _, err := f.ReadAt(buf[:n], end-n); err != nil {
			return place{}, err
		}
		if i := bytes.LastIndexByte(buf[:n], '\n'); i >= 0 {
			end -= n - int64(i) - 1
			break
		}
		end -= n
	}
	return place{inodeOf(info), end}, nil
}

func inodeOf(info fs.FileInfo) uint64 { return info.Sys().(*syscall.Stat_t).Ino }

// readLog returns whole lines after a place, and the place after them.
func readLog(path string, from place) ([]byte, place, error) {
	generations, err := generationsOf(path)
	if err != nil {
		return nil, from, err
	}
	i := slices.IndexFunc(generations, func(g generation) bool { return g.inode == from.Inode })
	if i < 0 {
		// Its file was removed or never existed: the rest begins there.
		i, from.Offset = 0, 0
		if from.Inode == 0 {
			i = max(0, len(generations)-1)
		}
	}
	for ; i < len(generations); i++ {
		g := generations[i]
		if g.inode != from.Inode {
			from = place{g.inode, 0}
		}
		lines, err := g.lines(from.Offset)
		if err != nil {
			return nil, from, err
		}
		from.Offset += int64(len(lines))
		if len(lines) > 0 {
			return lines, from, nil
		}
	}
	return nil, from, nil
}

// generation is one of the files of a log.
type generation struct {
	path  string
	inode uint64
}

// generationsOf returns a log's files, the oldest first. Rotated files have the time in their
// names (NAME-TIME.EXT).
func generationsOf(path string) ([]generation, error) {
	ext := filepath.Ext(path)
	entries, err := os.ReadDir(filepath.Dir(path))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var old, now []generation
	for _, e := range entries {
		name := e.Name()
		current := name == filepath.Base(path)
		if !current && !(strings.HasPrefix(name, strings.TrimSuffix(filepath.Base(path), ext)+"-") && filepath.Ext(name) == ext) {
			continue
		}
		info, err := e.Info()
		if err != nil {
			continue // it was renamed or removed just now
		}
		g := generation{filepath.Join(filepath.Dir(path), name), inodeOf(info)}
		if current {
			now = append(now, g)
		} else {
			old = append(old, g)
		}
	}
	slices.SortFunc(old, func(a, b generation) int { return strings.Compare(a.path, b.path) })
	return append(old, now...), nil
}

// lines reads whole lines of the file from an offset on. A file that was just renamed is found
// the next time.
func (g generation) lines(offset int64) ([]byte, error) {
	f, err := os.Open(g.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || inodeOf(info) != g.inode {
		return nil, err
	}
	for size := auditChunk; ; size *= 2 {
		buf := make([]byte, min(size, max(0, int(info.Size()-offset))))
		n, err := f.ReadAt(buf, offset)
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, err
		}
		if i := bytes.LastIndexByte(buf[:n], '\n'); i >= 0 {
			return buf[:i+1], nil
		}
		if n < size {
			return nil, nil
		}
	}
}

// auditBeat is the time between two reads of an audit log.
const auditBeat = 200 * time.Millisecond

// FollowAudit implements framework.AuditReader. While the node is unreachable it keeps trying:
// the log is on the node's disk. If part of the log is still unread when ctx ends, it returns
// an error.
func (c *Client) FollowAudit(ctx context.Context, entry func([]byte)) error {
	at, _, err := c.readAudit(ctx, nil)
	if err != nil {
		return err
	}
	return follow(ctx, at, entry, func(ctx context.Context, from place) ([]byte, place, error) {
		next, lines, err := c.readAudit(ctx, &from)
		return lines, next, err
	})
}

// FollowLog is FollowAudit for a log on this machine: it hands over whole lines that are added
// to a file until ctx ends, also after the file was rotated by renaming.
func FollowLog(ctx context.Context, path string, entry func([]byte)) error {
	at, err := endOf(path)
	if err == nil {
		err = follow(ctx, at, entry, func(_ context.Context, from place) ([]byte, place, error) { return readLog(path, from) })
	}
	if err != nil {
		return fmt.Errorf("failed to follow the log %s: %w", path, err)
	}
	return nil
}

// follow hands over the whole lines after a place until ctx ends.
func follow(ctx context.Context, at place, entry func([]byte), read func(context.Context, place) ([]byte, place, error)) error {
	// next hands over the lines of one answer.
	next := func(ctx context.Context) (found bool, err error) {
		lines, end, err := read(ctx, at)
		if err != nil {
			return false, err
		}
		at = end
		for line := range bytes.Lines(lines) {
			entry(bytes.TrimSuffix(line, []byte{'\n'}))
		}
		return len(lines) > 0, nil
	}
	beat := time.NewTicker(auditBeat)
	defer beat.Stop()
	for ctx.Err() == nil {
		select {
		case <-beat.C:
		case <-ctx.Done():
		}
		// Either the node is off, or the last read fails with the same error.
		_, _ = next(ctx)
	}
	// What the log contains now was written before ctx ended.
	ctx = context.WithoutCancel(ctx)
	for {
		if found, err := next(ctx); err != nil || !found {
			return err
		}
	}
}

func (c *Client) readAudit(ctx context.Context, from *place) (place, []byte, error) {
	var e entries
	// GET, although it has a body: it changes nothing, and is repeated on a connection that was stale.
	err := c.do(ctx, answerLimit, http.MethodGet, "audit", "follow the audit log", &request{From: from}, &e)
	return e.place, e.Lines, err
}
