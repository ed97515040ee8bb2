package kind

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/clusters"
)

// kind is asked again where a port was taken that it chose, with what it made removed.
func TestWithPorts(t *testing.T) {
	taken := errors.New("driver failed programming external connectivity: Bind for 127.0.0.1:37833 failed: port is already allocated")
	bound := errors.New("listen tcp4 127.0.0.1:37833: bind: address already in use")
	other := errors.New("no such image")
	stuck := errors.New("a container that cannot be removed")
	for _, test := range []struct {
		name    string
		creates []error
		clear   error
		want    error
		clears  int
	}{
		{"at once", []error{nil}, nil, nil, 0},
		{"the third time", []error{taken, bound, nil}, nil, nil, 2},
		{"never", []error{taken, taken, taken}, nil, taken, 2},
		{"another error", []error{other}, nil, other, 0},
		{"another error then", []error{taken, other}, nil, other, 1},
		{"not cleared", []error{taken}, stuck, stuck, 1},
	} {
		created, clears := 0, 0
		err := withPorts(func() error {
			created++
			return test.creates[created-1]
		}, func() error {
			clears++
			return test.clear
		})
		if !errors.Is(err, test.want) || created != len(test.creates) || clears != test.clears {
			t.Errorf("%s: %v after %d creations and %d removals", test.name, err, created, clears)
		}
	}
}

func TestRemoveContainers(t *testing.T) {
	dir := fakeDocker(t, `[ "$1" = rm ] || { echo x-worker; echo x-control-plane; }`)
	if err := scaled().removeContainers(t.Context()); err != nil {
		t.Error(err)
	}
	wantCalls(t, dir, "label=io.x-k8s.kind.cluster=x", "rm --force --volumes x-worker x-control-plane\n")
}

// What Create could not delete is found by the lock of its cluster, which is kept.
func TestCreateLeft(t *testing.T) {
	dir := fakeDocker(t, `case "$*" in
*" ls"*|*create*) exit 1;;
"network rm"*) if [ -f $DIR/stuck ]; then echo "has active endpoints" >&2; exit 1; fi;;
esac`)
	for _, left := range []bool{false, true} {
		if left {
			touch(t, dir, "stuck")
		}
		if _, err := Create(t.Context(), clusters.Default(), Options{Dir: t.TempDir()}); err == nil || errors.Is(err, errLeft) != left {
			t.Errorf("%v, want %t", err, left)
		}
	}
}

// Collecting logs from an engine that hangs delays the deletion only until the context ends.
func TestKeepLogsEnds(t *testing.T) {
	for _, exists := range []bool{false, true} {
		dir := fakeDocker(t, `while [ ! -f $DIR/continue ]; do sleep 0.05; done; exit 1`)
		c := scaled("x-control-plane")
		said := ""
		c.o.Progress = func(s string) { said = s }
		c.o.LogDir = filepath.Join(t.TempDir(), "logs")
		if exists {
			c.o.LogDir = t.TempDir()
		}
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		defer cancel()
		began := time.Now()
		err := c.keepLogs(ctx)
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("it took %s", took)
		}
		if exists != (err == nil) || err != nil && !errors.Is(err, context.DeadlineExceeded) || exists != strings.Contains(said, "as far as they were collected") {
			t.Errorf("the directory exists: %t; %v; progress: %q", exists, err, said)
		}
		touch(t, dir, "continue")
		kindMu.Lock() // until kind is done with the directory
		err = os.RemoveAll(dir)
		kindMu.Unlock()
		if err != nil {
			t.Error(err)
		}
	}
}
