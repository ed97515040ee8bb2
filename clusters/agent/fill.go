package agent

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"al.essio.dev/pkg/shellescape"
	"golang.org/x/sys/unix"

	"github.com/holdfast-ha/holdfast/clusters/agenthttp"
	"github.com/holdfast-ha/holdfast/clusters/etcddata"
	"github.com/holdfast-ha/holdfast/clusters/internal/expiry"
	"github.com/holdfast-ha/holdfast/clusters/system"
	"github.com/holdfast-ha/holdfast/framework"
)

// filler fills the file system of an etcd member's data with a file.
type filler struct {
	data    string   // etcd's data directory
	watcher *watcher // of the member; nil if the node has none
	store   *store

	mu     sync.Mutex            // held while the file grows, and while it is deleted
	timers expiry.Timers[string] // by handle
}

// filledState describes the file that fills a file system.
type filledState struct {
	Handle string    `json:"handle"`
	Path   string    `json:"path"`
	Mount  string    `json:"mount"` // of the file system
	Until  time.Time `json:"until"`
}

const (
	// fillName is the name of the file, in etcd's data directory: that may be all of the file
	// system.
	fillName = etcddata.Others + "fill"
	// fillPiece is how much space is taken at once. Between two pieces the request can be given up.
	fillPiece = 1 << 30
	// fillLimit is how long filling may take: the client waits for answerLimit.
	fillLimit = 8 * time.Second
	// lastBlocks is how many blocks at most are written to take what could not be reserved.
	lastBlocks = 256
)

const errFilled = agenthttp.NothingDone("it is already filled")

// fill takes the space of the file system, but for free bytes, until ttl has passed.
func (f *filler) fill(ctx context.Context, free int64, ttl time.Duration) (string, error) {
	if ttl <= 0 {
		return "", ErrNoTTL
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.filled() != nil {
		return "", errFilled
	}
	v, err := etcdVolume(f.data)
	if err != nil {
		return "", err
	}
	s := &filledState{Handle: strings.ToLower(rand.Text()[:12]), Path: filepath.Join(v.data, fillName), Mount: v.point, Until: time.Now().Add(ttl)}
	// Before there is a file, so that the next agent or the guard deletes it.
	if err := f.store.update(func(st *state) { st.Filled = s }); err != nil {
		f.store.note(func(st *state) { st.Filled = nil })
		return "", agenthttp.NothingDone(err.Error())
	}
	f.emptyIn(ttl)
	ctx, cancel := context.WithTimeoutCause(ctx, fillLimit, fmt.Errorf("it is not full after %s", fillLimit))
	defer cancel()
	err = v.take(ctx, s.Path, free)
	if err == nil {
		err = context.Cause(ctx) // the caller would not learn of it
	}
	if err != nil {
		err = fmt.Errorf("failed to fill the file system of %s: %w", v.data, err)
		if emptyErr := f.empty(); emptyErr != nil {
			f.emptyIn(retryPause)
			err = errors.Join(err, emptyErr)
		}
		return "", err
	}
	return s.Handle, nil
}

func (f *filler) filled() (s *filledState) {
	f.store.read(func(st *state) { s = st.Filled })
	return s
}

// take creates a file that takes all space but free bytes.
func (v volume) take(ctx context.Context, path string, free int64) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err // it would be what an agent left whose state is lost
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return err
	}
	defer file.Close()
	if info, err := file.Stat(); err != nil {
		return err
	} else if st, ok := info.Sys().(*syscall.Stat_t); !ok || st.Dev != v.device {
		return errors.New("it was unmounted in the meantime")
	}
	at, err := v.reserve(ctx, int(file.Fd()), free)
	if err == nil && free == 0 {
		err = v.writeRest(file, at)
	}
	return err
}

// reserve reserves all space but free bytes for a file, and returns the file's size. A piece that
// does not fit is halved, down to one block.
func (v volume) reserve(ctx context.Context, fd int, free int64) (size int64, err error) {
	for piece := int64(fillPiece); ; {
		st, err := v.stat()
		if err != nil {
			return size, err
		}
		block := int64(st.Bsize)
		rest := int64(st.Bfree)*block - free
		if rest <= 0 || piece < block {
			return size, nil
		}
		if ctx.Err() != nil {
			return size, context.Cause(ctx)
		}
		piece = min(piece, (rest+block-1)/block*block)
		switch err := unix.Fallocate(fd, 0, size, piece); {
		case err == nil:
			size += piece
		case errors.Is(err, unix.ENOSPC):
			piece = piece / 2 / block * block
		case errors.Is(err, unix.EOPNOTSUPP):
			// Writing instead would take minutes, and the space of a device with thin provisioning.
			return size, agenthttp.Unsupported("it cannot reserve space without writing (fallocate); " + ownVolume)
		case !errors.Is(err, unix.EINTR):
			return size, fmt.Errorf("failed to reserve %d bytes: %w", piece, err)
		}
	}
}

// writeRest takes the last blocks, which a file system may refuse to reserve and still give to a
// write.
func (v volume) writeRest(file *os.File, at int64) error {
	st, err := v.stat()
	if err != nil {
		return err
	}
	block := make([]byte, st.Bsize)
	for range lastBlocks {
		n, err := file.WriteAt(block, at)
		if errors.Is(err, unix.ENOSPC) {
			return nil
		}
		if err != nil {
			return err
		}
		at += int64(n)
	}
	return nil // whether it is full shows in a probe
}

// unfill deletes the file; it does nothing if it is gone.
func (f *filler) unfill(handle string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if s := f.filled(); s == nil || s.Handle != handle {
		return nil
	}
	return f.empty()
}

// empty is unfill with mu held. A member that could not write has exited, and systemd may wait
// before it starts the unit again, or may have given up.
func (f *filler) empty() error {
	s := f.filled()
	if s == nil {
		return nil
	}
	if err := mountedAt(filepath.Dir(s.Path), s.Mount); err != nil {
		return fmt.Errorf("failed to free the space of etcd's data: %w", err)
	}
	if err := os.Remove(s.Path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("failed to free the space of etcd's data: %w", err)
	}
	f.timers.Stop(s.Handle)
	f.store.note(func(st *state) { st.Filled = nil })
	if f.watcher == nil || f.watcher.spec.Unit == "" {
		return nil // a pod's kubelet does not give up
	}
	ctx, cancel := context.WithTimeout(context.Background(), keepLimit)
	defer cancel()
	f.watcher.mu.Lock()
	defer f.watcher.mu.Unlock()
	if err := f.watcher.hurry(ctx, f.watcher.held()); err != nil {
		complain(err) // the space is free all the same
	}
	return nil
}

// emptyIn frees the space later, and retries until it succeeds; with mu held.
func (f *filler) emptyIn(d time.Duration) {
	f.timers.Start(&f.mu, f.filled().Handle, d, f.empty)
}

// resume takes over what an earlier agent left, whole or in part; over means that its time is over.
func (f *filler) resume(over bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.filled()
	if s == nil {
		if f.data != "" { // of an agent whose state is lost
			_ = os.Remove(filepath.Join(f.data, fillName))
		}
		return
	}
	left := time.Until(s.Until)
	if over || left <= 0 {
		err := f.empty()
		if err == nil {
			return
		}
		complain(err)
		left = retryPause
	}
	f.emptyIn(left)
}

// unfilling returns the shell script that frees the space and starts the member's unit.
func unfilling(c Config, s *filledState) string {
	script := awaitMount(s.Mount) + "rm -f " + shellescape.Quote(s.Path) + " || rc=1\n"
	for _, one := range c.Components {
		if one.Name == framework.Etcd && one.Unit != "" {
			script += startUnit(one.Unit) + "\n"
		}
	}
	return script
}

// probeSize is the size of what a probe writes: an entry of etcd's log.
const probeSize = 2 << 10

// probe writes, syncs and reads a file without a name in etcd's data directory: nothing is left of
// it, even if the agent is killed.
func (f *filler) probe() (p framework.DiskProbe, err error) {
	if f.data == "" {
		return p, errNoMember
	}
	var st unix.Statfs_t
	if err := unix.Statfs(f.data, &st); err != nil {
		return p, fmt.Errorf("failed to read the space of %s: %w", f.data, err)
	}
	p.Free = int64(st.Bavail) * int64(st.Bsize)
	fd := -1
	step := func(s *framework.DiskStep, do func() error) bool {
		began := time.Now()
		err := do()
		s.Took, s.Done = time.Since(began), true
		if err != nil {
			s.Error = system.ErrnoName(err)
		}
		return err == nil
	}
	defer func() {
		if fd >= 0 {
			_ = unix.Close(fd)
		}
	}()
	written, back := bytes.Repeat([]byte("holdfast"), probeSize/8), make([]byte, probeSize)
	_ = step(&p.Write, func() (err error) {
		if fd, err = unix.Open(f.data, unix.O_TMPFILE|unix.O_RDWR|unix.O_CLOEXEC, 0o600); err != nil {
			return err
		}
		_, err = unix.Pwrite(fd, written, 0)
		return err
	}) && step(&p.Sync, func() error { return unix.Fdatasync(fd) }) && step(&p.Read, func() error {
		_ = unix.Fadvise(fd, 0, 0, unix.FADV_DONTNEED)
		n, err := unix.Pread(fd, back, 0)
		if err == nil && !bytes.Equal(back[:n], written) {
			err = errors.New("read back something else")
		}
		return err
	})
	return p, nil
}

func (f *filler) handle(mux *http.ServeMux) {
	answer(mux, "GET /volume", func(context.Context, request) (any, error) {
		_, err := etcdVolume(f.data)
		return nil, err
	})
	answer(mux, "POST /fill", func(ctx context.Context, r request) (any, error) { return f.fill(ctx, r.Free, r.For) })
	answer(mux, "POST /unfill", func(_ context.Context, r request) (any, error) { return nil, f.unfill(r.Handle) })
	answer(mux, "GET /probe-volume", func(context.Context, request) (any, error) { return f.probe() })
}

// CheckVolume returns an error that is errors.ErrUnsupported, with the reason, unless etcd's data
// are on a file system of their own that may be filled.
func (c *Client) CheckVolume(ctx context.Context) error {
	return c.do(ctx, answerLimit, http.MethodGet, "volume", "check the file system of etcd's data", nil, nil)
}

// FillVolume takes the space of the file system of etcd's data, but for free bytes, until
// EmptyVolume or until ttl has passed, and returns a handle. Its errors include those of
// CheckVolume.
func (c *Client) FillVolume(ctx context.Context, free int64, ttl time.Duration) (handle string, err error) {
	err = c.post(ctx, "fill", "fill the file system of etcd's data", request{Free: free, For: ttl}, &handle)
	return handle, err
}

// EmptyVolume frees the space that FillVolume took; it does nothing if it is free.
func (c *Client) EmptyVolume(ctx context.Context, handle string) error {
	return c.post(ctx, "unfill", "free the space of etcd's data", request{Handle: handle}, nil)
}

// ProbeVolume writes to the file system of etcd's data as etcd does, and reports the answers.
func (c *Client) ProbeVolume(ctx context.Context) (p framework.DiskProbe, err error) {
	err = c.do(ctx, answerLimit, http.MethodGet, "probe-volume", "probe the file system of etcd's data", nil, &p)
	return p, err
}
