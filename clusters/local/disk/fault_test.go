package disk

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/holdfast-ha/holdfast/framework"
)

func put(t *testing.T, p *Process, f framework.DiskFault, ttl time.Duration) string {
	t.Helper()
	h, err := p.FaultDisk(t.Context(), f, ttl)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func restore(t *testing.T, p *Process, handle string) {
	t.Helper()
	if err := p.RestoreDisk(t.Context(), handle); err != nil {
		t.Fatal(err)
	}
}

func counters(t *testing.T, p *Process, handle string) framework.DiskCounters {
	t.Helper()
	c, err := p.DiskCounters(t.Context(), handle)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func look(t *testing.T, p *Process) framework.DiskProbe {
	t.Helper()
	probe, err := Probe(t.Context(), p.Mount(), func(file string) (bool, error) { return p.Unsynced(t.Context(), file) })
	if err != nil {
		t.Fatal(err)
	}
	return probe
}

// well reports whether a probe saw a disk without faults.
func well(p framework.DiskProbe) bool {
	for _, s := range []framework.DiskStep{p.Write, p.Sync, p.Read} {
		if !s.Done || s.Error != "" {
			return false
		}
	}
	return !p.Unsynced && p.Free > 0
}

func TestFaults(t *testing.T) {
	p := startDisk(t, t.TempDir())
	const delay = 50 * time.Millisecond
	type seen struct {
		probe framework.DiskProbe
		count framework.DiskCounters
	}
	for _, c := range []struct {
		name  string
		fault framework.DiskFault
		shows func(seen) bool
	}{
		{"slow sync", framework.DiskFault{Op: framework.DiskFsync, Delay: delay},
			func(s seen) bool { return s.probe.Sync.Took >= delay && s.count.Delayed == 1 }},
		{"slow read", framework.DiskFault{Op: framework.DiskRead, Delay: delay},
			func(s seen) bool { return s.probe.Read.Took >= delay && s.count.Delayed == 1 }},
		{"slow write", framework.DiskFault{Op: framework.DiskWrite, Delay: delay, Jitter: delay / 2},
			func(s seen) bool { return s.probe.Write.Took >= delay && s.count.Delayed >= 2 }},
		{"all slow", framework.DiskFault{Delay: delay},
			func(s seen) bool { return min(s.probe.Write.Took, s.probe.Sync.Took, s.probe.Read.Took) >= delay }},
		{"error on sync", framework.DiskFault{Op: framework.DiskFsync, Error: "EIO", Share: 1},
			func(s seen) bool { return s.probe.Sync.Error == "EIO" && s.count.Failed == 1 }},
		{"error on read", framework.DiskFault{Op: framework.DiskRead, Error: "EIO", Share: 1},
			func(s seen) bool {
				return s.probe.Read.Error == "EIO" && s.probe.Sync.Error == "" && s.count.Failed == 1
			}},
		{"read only", framework.DiskFault{Op: framework.DiskWrite, Error: "EROFS", Share: 1},
			func(s seen) bool { return s.probe.Write.Error == "EROFS" && s.count.Failed >= 1 }},
		{"no error after all", framework.DiskFault{Op: framework.DiskAll, Error: "EIO", Share: 0},
			func(s seen) bool { return well(s.probe) && s.count.Matched >= 4 && s.count.Failed == 0 }},
		{"full", framework.DiskFault{Full: true},
			func(s seen) bool {
				return s.probe.Write.Error == "ENOSPC" && s.probe.Free == 0 && s.count.Failed == 1
			}},
		{"nearly full", framework.DiskFault{Full: true, Free: 3 * probeSize},
			func(s seen) bool { return well(s.probe) && s.probe.Free <= 3*probeSize && s.count.Failed == 0 }},
		{"lie", framework.DiskFault{Lie: true},
			func(s seen) bool { return s.probe.Sync.Error == "" && s.probe.Unsynced && s.count.Lied == 1 }},
	} {
		t.Run(c.name, func(t *testing.T) {
			if probe := look(t, p); !well(probe) {
				t.Fatalf("before: %+v", probe)
			}
			h := put(t, p, c.fault, time.Minute)
			s := seen{look(t, p), counters(t, p, h)}
			if !c.shows(s) {
				t.Errorf("seen: %+v", s)
			}
			restore(t, p, h)
			restore(t, p, h) // does nothing
			count := counters(t, p, h)
			if probe := look(t, p); !well(probe) || counters(t, p, h) != count {
				t.Errorf("afterwards: %+v", probe)
			}
			h = put(t, p, c.fault, 100*time.Millisecond)
			eventually(t, 20*time.Second, "it heals by itself", func() bool {
				count := counters(t, p, h)
				return well(look(t, p)) && counters(t, p, h) == count
			})
		})
	}
}

// TestLostAnswer: a client that gave up does not know the handle of its fault and could not end it, so
// the disk does.
func TestLostAnswer(t *testing.T) {
	d := &Disk{fs: &fileSystem{}, faults: map[string]*fault{}}
	for _, waits := range []bool{true, false} {
		ctx, giveUp := context.WithCancel(t.Context())
		if !waits {
			giveUp()
		}
		b, err := json.Marshal(request{Fault: framework.DiskFault{Op: framework.DiskFsync, Delay: time.Second}, TTL: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		answered := httptest.NewRecorder()
		d.handler().ServeHTTP(answered, httptest.NewRequestWithContext(ctx, http.MethodPost, "/fault", bytes.NewReader(b)))
		if active := d.fs.rules.Load() != nil; active != waits {
			t.Errorf("the client waits: %t; the fault is active: %t; %s", waits, active, answered.Body)
		}
		if err := d.Restore("1"); err != nil {
			t.Fatal(err)
		}
		giveUp()
	}
}

func TestFullAfterAWhile(t *testing.T) {
	p := startDisk(t, t.TempDir())
	put(t, p, framework.DiskFault{Full: true, Free: 10_000}, time.Minute)
	f, err := os.Create(filepath.Join(p.Mount(), "a"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for i := range 10 {
		if _, err := f.Write(make([]byte, 1000)); err != nil {
			t.Fatalf("%d bytes of 10,000: %v", 1000*i, err)
		}
	}
	if _, err := f.Write([]byte{1}); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("on a full disk: %v", err)
	}
	if err := os.Remove(f.Name()); err != nil {
		t.Errorf("removing a file from a full disk: %v", err)
	}
}

func TestRefused(t *testing.T) {
	p := startDisk(t, t.TempDir())
	for _, f := range []framework.DiskFault{{Error: "ENOENT", Share: 1}, {Share: 2, Error: "EIO"}, {Delay: 1, Jitter: 2}, {Full: true, Free: -1}} {
		if _, err := p.FaultDisk(t.Context(), f, time.Minute); err == nil {
			t.Errorf("accepted: %+v", f)
		}
	}
	if _, err := p.FaultDisk(t.Context(), framework.DiskFault{Lie: true}, 0); err == nil {
		t.Error("a fault without a time to live was accepted")
	}
	if err := p.RestoreDisk(t.Context(), "77"); err == nil {
		t.Error("a fault that never was is restored")
	}
}

func TestLie(t *testing.T) {
	p := startDisk(t, t.TempDir())
	step(t, p.Mount(), "write a 0 old")
	step(t, p.Mount(), "sync a")
	lie := put(t, p, framework.DiskFault{Lie: true}, time.Minute)
	step(t, p.Mount(), "write a 0 new")
	step(t, p.Mount(), "sync a")
	step(t, p.Mount(), "write b 0 b")
	step(t, p.Mount(), "sync b")
	step(t, p.Mount(), "sync .")
	drop(t, p)
	if got := contents(t, p.Mount()); got != "a=old" {
		t.Errorf("a lying disk kept %q", got)
	}
	step(t, p.Mount(), "write a 0 new")
	step(t, p.Mount(), "sync a")
	restore(t, p, lie)
	drop(t, p)
	if got := contents(t, p.Mount()); got != "a=new" {
		t.Errorf("what a disk lied about is not durable once it is healed: %q", got)
	}
}

func TestFlip(t *testing.T) {
	p := startDisk(t, t.TempDir())
	if err := os.MkdirAll(filepath.Join(p.Mount(), "d/e"), 0o755); err != nil {
		t.Fatal(err)
	}
	step(t, p.Mount(), "write d/e/db 0 abcdefgh")
	f, err := os.OpenFile(filepath.Join(p.Mount(), "d/e/db"), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	mapped, err := unix.Mmap(int(f.Fd()), 0, 8, unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Munmap(mapped)
	text := func() string { return strings.Map(printable, string(mapped)) }
	if text() != "abcdefgh" {
		t.Fatal(text())
	}
	flip := func(what framework.DiskFlip) framework.DiskFlipped {
		done, err := p.Flip(t.Context(), what, time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		return done
	}
	one := flip(framework.DiskFlip{File: "*/e/db", Offset: -1, Bytes: 2})
	if one.File != "d/e/db" || one.Offset != 4 || string(one.Was) != "ef" || text() != "abcd??gh" {
		t.Errorf("flipped %+v: %s", one, text())
	}
	if again := flip(framework.DiskFlip{File: "d/e/db", Offset: 5, Bytes: 2}); again.Handle != "" || text() != "abcd??gh" {
		t.Errorf("flipped again: %+v: %s", again, text())
	}
	two := flip(framework.DiskFlip{File: "d/e/db", Offset: 6, Bytes: 1})
	if text() != "abcd???h" {
		t.Errorf("flipped beside it: %s", text())
	}
	restore(t, p, one.Handle)
	if text() != "abcdef?h" {
		t.Errorf("the first one taken back: %s", text())
	}
	step(t, p.Mount(), "write d/e/db 6 X")
	restore(t, p, two.Handle)
	if text() != "abcdefXh" {
		t.Errorf("what was written since must stay: %s", text())
	}
	keep := flip(framework.DiskFlip{File: "d/e/db", Bytes: 1, Keep: true})
	restore(t, p, keep.Handle)
	if text() != "?bcdefXh" {
		t.Errorf("kept damage: %s", text())
	}
	if _, err := p.Flip(t.Context(), framework.DiskFlip{File: "nothing*", Bytes: 1}, time.Minute); err == nil || !strings.Contains(err.Error(), "nothing*") {
		t.Errorf("a file that is not there: %v", err)
	}
	if _, err := p.Flip(t.Context(), framework.DiskFlip{File: "d/e/db", Offset: 8, Bytes: 1}, time.Minute); err == nil {
		t.Error("bytes beyond the end were flipped")
	}
}

func printable(r rune) rune {
	if r < ' ' || r > '~' {
		return '?'
	}
	return r
}

func TestWipe(t *testing.T) {
	p := startDisk(t, t.TempDir())
	step(t, p.Mount(), "mkdir d")
	step(t, p.Mount(), "write d/a 0 old")
	f, err := os.OpenFile(filepath.Join(p.Mount(), "d/a"), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	h, err := p.Wipe(t.Context(), time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	if got := contents(t, p.Mount()); got != "" {
		t.Errorf("a wiped disk has %q", got)
	}
	if _, err := f.WriteAt([]byte("x"), 0); !errors.Is(err, syscall.EIO) {
		t.Errorf("a file of the disk that is gone: %v", err)
	}
	if again, err := p.Wipe(t.Context(), time.Minute); again != "" || err != nil {
		t.Errorf("wiped twice: %q, %v", again, err)
	}
	step(t, p.Mount(), "mkdir d")
	step(t, p.Mount(), "write d/a 0 other")
	step(t, p.Mount(), "write b 0 other")
	newer, err := os.Open(filepath.Join(p.Mount(), "b"))
	if err != nil {
		t.Fatal(err)
	}
	defer newer.Close()
	restore(t, p, h)
	if got := contents(t, p.Mount()); got != "d/ d/a=old" {
		t.Errorf("restored is %q", got)
	}
	if _, err := newer.Read(make([]byte, 1)); !errors.Is(err, syscall.EIO) {
		t.Errorf("a file of the disk that was in between: %v", err)
	}
	if _, err := f.WriteAt([]byte("new"), 0); err != nil {
		t.Errorf("a file that was open all the time: %v", err)
	}
	if loss := drop(t, p); loss.Files != 1 {
		t.Errorf("what is not synced on the disk that came back: %+v", loss)
	}
	step(t, p.Mount(), "write d/a 0 new")
	if _, err := p.Wipe(t.Context(), 50*time.Millisecond); err != nil {
		t.Fatal(err)
	}
	eventually(t, 20*time.Second, "the data come back by themselves", func() bool { return contents(t, p.Mount()) == "d/ d/a=new" })
}

// TestKilledWhileWaiting kills a process that waits for a slow disk: it must exit immediately.
// Until then the many signals that a Go program sends to itself must not reach it as failed
// operations. Bytes that were flipped on a wiped disk disappeared with it: healing them later
// must not touch a file of that name on the disk that came back.
func TestFlipOnADiskThatIsGone(t *testing.T) {
	p := startDisk(t, t.TempDir())
	step(t, p.Mount(), "write a 0 abcdefgh")
	wipe, err := p.Wipe(t.Context(), time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	step(t, p.Mount(), "write a 0 ABCDEFGH")
	// Once the kernel lets go of the file it is forgotten here too.
	open, err := os.OpenFile(filepath.Join(p.Mount(), "a"), unix.O_PATH, 0)
	if err != nil {
		t.Fatal(err)
	}
	flip, err := p.Flip(t.Context(), framework.DiskFlip{File: "a", Offset: 2, Bytes: 3}, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	restore(t, p, wipe)
	restore(t, p, flip.Handle)
	open.Close()
	if got := contents(t, p.Mount()); got != "a=abcdefgh" {
		t.Errorf("the disk that came back has %q", got)
	}
}

// The end of an expired fault is retried until it succeeds.
func TestEndsInTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &Disk{faults: map[string]*fault{}}
		tries := 0
		handle, err := d.add(&fault{end: func() error {
			if tries++; tries < 3 {
				return errors.New("not yet")
			}
			return nil
		}}, time.Second)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if tries != 3 || !d.fault(handle).over {
			t.Errorf("tried %d times, over %v", tries, d.fault(handle).over)
		}
	})
}

func TestKilledWhileWaiting(t *testing.T) {
	for _, frozen := range []bool{false, true} {
		p := startDisk(t, t.TempDir())
		writer := exec.Command("/proc/self/exe", filepath.Join(p.Mount(), "a"))
		writer.Args[0] = roleWriter
		out, err := writer.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := writer.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(out)
		for range 10 {
			if !lines.Scan() {
				t.Fatal("the writer ended")
			}
		}
		h := put(t, p, framework.DiskFault{Op: framework.DiskFsync, Delay: time.Hour}, 2*time.Hour)
		eventually(t, 20*time.Second, "the writer waits", func() bool { return counters(t, p, h).Delayed > 0 })
		if err := writer.Process.Signal(syscall.SIGURG); err != nil {
			t.Fatal(err)
		}
		if frozen {
			restore(t, p, h)
			if err := p.Freeze(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if err := writer.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() {
			for lines.Scan() {
			}
			ended <- writer.Wait()
		}()
		select {
		case err := <-ended:
			if !strings.Contains(err.Error(), "killed") {
				t.Errorf("the writer ended: %v", err)
			}
		case <-time.After(20 * time.Second):
			t.Fatal("a killed process waits for the disk")
		}
	}
}

// TestSignals bombards a writer on a slow disk with signals.
func TestSignals(t *testing.T) {
	p := startDisk(t, t.TempDir())
	put(t, p, framework.DiskFault{Delay: 5 * time.Millisecond}, time.Hour)
	writer := exec.Command("/proc/self/exe", filepath.Join(p.Mount(), "a"))
	writer.Args[0] = roleWriter
	out, err := writer.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := writer.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	lines.Scan() // it writes
	said := lines.Text() + "\n"
	for began := time.Now(); time.Since(began) < 500*time.Millisecond; time.Sleep(time.Millisecond) {
		if err := writer.Process.Signal(syscall.SIGURG); err != nil {
			t.Fatal(err)
		}
	}
	_ = writer.Process.Kill()
	for lines.Scan() {
		said += lines.Text() + "\n"
	}
	_ = writer.Wait()
	if strings.Contains(said, "interrupted") || !strings.Contains(said, "1\n") {
		t.Errorf("the writer says %q", said)
	}
}

// TestStopWhileStuck takes a disk away from those that wait for it.
func TestStopWhileStuck(t *testing.T) {
	dir := t.TempDir()
	p := startDisk(t, dir)
	put(t, p, framework.DiskFault{Delay: time.Hour}, 2*time.Hour)
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	probe, err := Probe(ctx, p.Mount(), nil)
	if err != nil || probe.Write.Done || probe.Write.Took < 100*time.Millisecond {
		t.Errorf("a probe of a stuck disk: %+v, %v", probe, err)
	}
	if err := p.Stop(); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil || bytes.Contains(b, []byte(dir)) {
		t.Errorf("the mount is left: %v", err)
	}
}
