package agent

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/holdfast-ha/holdfast/framework"
)

// wipedNode is what a fault on the data of a member that is a systemd unit has left. The stand-in for
// systemctl waits in "stop" until the test releases it; the member's unit must be stopped alone.
type wipedNode struct {
	t      *testing.T
	config Config
	point  string // where the file system of the data is mounted
	bin    string
}

func newWipedNode(t *testing.T) *wipedNode {
	t.Helper()
	dir := t.TempDir()
	n := &wipedNode{t: t, bin: filepath.Join(dir, "bin"), config: Config{Socket: filepath.Join(dir, "run", "agent.sock"), Dir: filepath.Join(dir, "state"),
		EtcdData: filepath.Join(dir, "their etcd"), Components: []Component{{Name: framework.Etcd, Command: "etcd-of-no-one", Unit: "etcd.service"}}}}
	for _, one := range []string{n.bin, n.config.Dir, n.config.EtcdData} {
		mkdir(t, one)
	}
	write(t, filepath.Join(n.bin, "systemctl"), "#!/bin/sh\n[ \"$1 $2\" != \"stop "+aloneFlag+"\" ] || { : >"+n.bin+"/stopping; until [ -e "+n.bin+"/go ]; do sleep 0.05; done; }\n")
	must(t, os.Chmod(filepath.Join(n.bin, "systemctl"), 0o755))
	point, err := mountPoint(n.config.EtcdData)
	must(t, err)
	n.point = point
	return n
}

// wipes puts the member's own data aside, in a directory that is etcd's data directory now or later.
func (n *wipedNode) wipes(data string) {
	n.t.Helper()
	for _, file := range []string{".holdfast-aside/own", "member/new"} {
		mkdir(n.t, filepath.Dir(filepath.Join(data, file)))
		write(n.t, filepath.Join(data, file), "data")
	}
}

func (n *wipedNode) state() *state {
	return &state{Wiped: &wipedState{Handle: "h", Until: time.Now().Add(time.Hour), Mount: n.point}}
}

// undo starts the script of the node.
func (n *wipedNode) undo() (over func() error) {
	n.t.Helper()
	var said bytes.Buffer
	shell := exec.Command("sh", "-c", healScript(n.config, n.state()))
	shell.Env = append(os.Environ(), "PATH="+n.bin+":"+os.Getenv("PATH"))
	shell.Stdout, shell.Stderr = &said, &said
	must(n.t, shell.Start())
	n.t.Cleanup(func() { _ = shell.Process.Kill() })
	return func() error {
		err := shell.Wait()
		if err == nil && said.Len() > 0 {
			err = errors.New(said.String())
		}
		return err
	}
}

func (n *wipedNode) releases() { write(n.t, filepath.Join(n.bin, "go"), "") }

// healed checks that the member has its own data, and that nothing else is left.
func (n *wipedNode) healed() {
	n.t.Helper()
	if !exists(filepath.Join(n.config.EtcdData, "member", "own")) || exists(filepath.Join(n.config.EtcdData, "member", "new")) {
		n.t.Error("the member does not have its own data")
	}
	left, err := filepath.Glob(filepath.Join(n.config.EtcdData, ".holdfast-*"))
	must(n.t, err)
	if _, err := os.Lstat(undoLock(n.config)); len(left) > 0 || err == nil {
		n.t.Errorf("beside the data there is %q; the lock: %v", left, err)
	}
}

// TestUndoTwice runs two scripts at the same time, and one after both: the member's data are there.
func TestUndoTwice(t *testing.T) {
	t.Parallel()
	for range 20 {
		t.Run("", func(t *testing.T) {
			t.Parallel()
			n := newWipedNode(t)
			n.wipes(n.config.EtcdData)
			first, second := n.undo(), n.undo()
			eventually(t, "one of them stops the member", func() bool { return exists(filepath.Join(n.bin, "stopping")) })
			time.Sleep(300 * time.Millisecond) // the other one would do so as well
			n.releases()
			must(t, errors.Join(first(), second()))
			n.healed()
			must(t, n.undo()())
			n.healed()
		})
	}
}

// TestUndoTwiceBeforeMount has both scripts wait for the volume of the data.
func TestUndoTwiceBeforeMount(t *testing.T) {
	t.Parallel()
	n := newWipedNode(t)
	elsewhere := filepath.Join(t.TempDir(), "volume")
	mountTmpfs(t, elsewhere, "8m")
	n.wipes(elsewhere)
	n.point = n.config.EtcdData
	n.releases()
	first, second := n.undo(), n.undo()
	time.Sleep(300 * time.Millisecond)
	must(t, unix.Mount(elsewhere, n.config.EtcdData, "", unix.MS_MOVE, ""))
	t.Cleanup(func() { _ = unix.Unmount(n.config.EtcdData, unix.MNT_DETACH) })
	must(t, errors.Join(first(), second()))
	n.healed()
}

// TestUndoWhileAgentRestores has the agent restore the data while a script does.
func TestUndoWhileAgentRestores(t *testing.T) {
	t.Parallel()
	n := newWipedNode(t)
	n.wipes(n.config.EtcdData)
	s, err := openStore(n.config.Dir)
	must(t, err)
	s.config = n.config
	must(t, s.update(func(st *state) { st.Wiped = n.state().Wiped }))
	e := &etcd{data: n.config.EtcdData, store: s}
	over := n.undo()
	eventually(t, "the script stops the member", func() bool { return exists(filepath.Join(n.bin, "stopping")) })
	if err := e.putBack(); !errors.Is(err, errUndoing) || !exists(e.aside()) || e.wiped() == nil {
		t.Errorf("the agent restored as well: %v", err)
	}
	n.releases()
	must(t, over())
	n.healed()
	must(t, e.putBack())
	n.healed()
	if e.wiped() != nil {
		t.Error("the agent does not know that the data are back")
	}
}

// TestUndoLockOfKilled: the lock of a process that was killed keeps nothing from healing, and neither
// does a lock that cannot be created.
func TestUndoLockOfKilled(t *testing.T) {
	t.Parallel()
	for name, prepare := range map[string]func(t *testing.T, lock string){
		"no such process":         func(t *testing.T, lock string) { must(t, os.Symlink("4194304.1", lock)) },
		"another process has PID": func(t *testing.T, lock string) { must(t, os.Symlink("1.99999999999", lock)) },
		"not a lock":              func(t *testing.T, lock string) { must(t, os.Symlink("x", lock)) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := newWipedNode(t)
			n.wipes(n.config.EtcdData)
			n.releases()
			prepare(t, undoLock(n.config))
			must(t, n.undo()())
			n.healed()

			prepare(t, undoLock(n.config))
			release, err := takeUndoLock(undoLock(n.config))
			must(t, err)
			if owner, err := os.Readlink(undoLock(n.config)); err != nil || !holds(owner) {
				t.Errorf("the lock is %q, %v", owner, err)
			}
			release()
			n.healed()
		})
	}
	n := newWipedNode(t)
	n.wipes(n.config.EtcdData)
	n.releases()
	n.config.Socket = filepath.Join(n.config.Dir, "none", "run", "agent.sock")
	must(t, n.undo()())
	n.healed()
}
