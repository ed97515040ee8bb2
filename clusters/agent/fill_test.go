package agent

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/holdfast-ha/holdfast/framework"
)

// mountTmpfs mounts a file system of a size on a new directory.
func mountTmpfs(t *testing.T, dir, size string) {
	t.Helper()
	mkdir(t, dir)
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size="+size); err != nil {
		t.Skipf("the test needs a file system of its own, and mounting one failed: %v", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
}

// volumeNode is a node with a small file system for etcd's data.
func volumeNode(t *testing.T) (n *testNode, file string) {
	t.Helper()
	n = newNode(t)
	n.config.EtcdData = filepath.Join(t.TempDir(), "etcd")
	mountTmpfs(t, n.config.EtcdData, "8m")
	mkdir(t, filepath.Join(n.config.EtcdData, "member", "snap"))
	write(t, filepath.Join(n.config.EtcdData, "member", "snap", "db"), "data")
	n.up()
	return n, filepath.Join(n.config.EtcdData, fillName)
}

// fits reports whether a file system has space for another file.
func fits(t *testing.T, n *testNode) bool {
	t.Helper()
	file := filepath.Join(n.config.EtcdData, "member", "more")
	err := os.WriteFile(file, make([]byte, 64<<10), 0o600)
	if err != nil && !errors.Is(err, unix.ENOSPC) {
		t.Fatal(err)
	}
	must(t, os.Remove(file))
	return err == nil
}

func TestFillVolume(t *testing.T) {
	t.Parallel()
	n, file := volumeNode(t)
	must(t, n.CheckVolume(t.Context()))
	before, err := n.ProbeVolume(t.Context())
	if err != nil || before.Free < 7<<20 || before.Write.Error+before.Sync.Error+before.Read.Error != "" || !before.Read.Done {
		t.Fatalf("before: %+v, %v", before, err)
	}
	handle, err := n.FillVolume(t.Context(), 0, time.Hour)
	must(t, err)
	if p, err := n.ProbeVolume(t.Context()); err != nil || p.Free != 0 || p.Write.Error != "ENOSPC" {
		t.Errorf("filled: %+v, %v", p, err)
	}
	if fits(t, n) {
		t.Error("filled, it has space for another file")
	}
	if left, err := n.Active(t.Context()); err != nil || len(left) != 1 || !strings.Contains(left[0], "is filled until") {
		t.Errorf("active are %q, %v", left, err)
	}
	if files, err := n.ListDisk(t.Context()); err != nil || len(files) != 1 {
		t.Errorf("etcd's files are %q, %v", files, err)
	}
	if _, err := n.FillVolume(t.Context(), 0, time.Hour); !errors.Is(err, framework.ErrNothingDone) {
		t.Errorf("filled again: %v", err)
	}
	must(t, n.EmptyVolume(t.Context(), "another"))
	if !exists(file) {
		t.Fatal("another handle freed the space")
	}
	must(t, n.EmptyVolume(t.Context(), handle))
	must(t, n.EmptyVolume(t.Context(), handle))
	if p, err := n.ProbeVolume(t.Context()); err != nil || p.Free != before.Free || p.Write.Error != "" || exists(file) || !fits(t, n) {
		t.Errorf("freed: %+v, %v", p, err)
	}

	_, err = n.FillVolume(t.Context(), 1<<20, time.Hour)
	must(t, err)
	if p, err := n.ProbeVolume(t.Context()); err != nil || p.Free > 1<<20 || p.Free < 1<<19 || p.Write.Error != "" {
		t.Errorf("filled but for 1 MiB: %+v, %v", p, err)
	}
	must(t, n.HealAll(t.Context()))
	eventually(t, "the space is free", func() bool { return !exists(file) })
	if _, err := n.FillVolume(t.Context(), 0, 0); !errors.Is(err, framework.ErrNothingDone) || exists(file) {
		t.Errorf("without a time to live: %v", err)
	}
}

// TestRejoinWhileFilled: a member that joins again without its data does not end another fault.
func TestRejoinWhileFilled(t *testing.T) {
	t.Parallel()
	n, db := etcdNode(t)
	handle, err := n.FillVolume(t.Context(), 0, time.Hour)
	must(t, err)
	must(t, n.RejoinEtcd(t.Context(), []framework.EtcdPeer{{Name: "node-1", URLs: []string{"https://10.0.0.1:2380"}}}))
	file := filepath.Join(n.config.EtcdData, fillName)
	if exists(db) || !exists(file) {
		t.Errorf("the data are there: %t; the file system is filled: %t", exists(db), exists(file))
	}
	must(t, n.EmptyVolume(t.Context(), handle))
	if exists(file) {
		t.Error("the file system is filled")
	}
}

// TestFillDeadMan kills the agent while the file system is full: its successor frees the space in
// time, also after a restart of the node, and immediately if the time is over.
func TestFillDeadMan(t *testing.T) {
	t.Parallel()
	n, file := volumeNode(t)
	_, err := n.FillVolume(t.Context(), 0, n.beyond(4*time.Second))
	must(t, err)
	n.kill()
	if fits(t, n) {
		t.Error("without an agent the file system is not full")
	}
	n.restarted()
	n.up()
	if !exists(file) {
		t.Error("the successor freed the space before its time")
	}
	eventually(t, "its time is over", func() bool { return !exists(file) })

	_, err = n.FillVolume(t.Context(), 0, 200*time.Millisecond)
	must(t, err)
	n.kill()
	time.Sleep(200 * time.Millisecond)
	n.up()
	if exists(file) || !fits(t, n) {
		t.Error("the successor has not freed the space that was due")
	}
}

// TestFillLeash: without requests the agent frees the space long before its time.
func TestFillLeash(t *testing.T) {
	t.Parallel()
	n, file := volumeNode(t)
	n.kill()
	n.config.Leash = time.Second
	n.up()
	_, err := n.FillVolume(t.Context(), 0, time.Hour)
	must(t, err)
	eventually(t, "the space is free", func() bool { return !exists(file) })
}

// TestFillHealScript frees the space by a shell alone, and has a unit that gave up started.
func TestFillHealScript(t *testing.T) {
	t.Parallel()
	n, file := volumeNode(t)
	_, err := n.FillVolume(t.Context(), 0, time.Hour)
	must(t, err)
	n.kill()
	if out, err := exec.Command("sh", undoFile(n.config.Dir)).CombinedOutput(); err != nil || len(out) > 0 {
		t.Fatalf("%s, %v", out, err)
	}
	if exists(file) || !fits(t, n) {
		t.Error("the space is not free")
	}
	script := healScript(Config{Components: []Component{{Name: framework.Etcd, Unit: "etcd.service"}}}, &state{Filled: &filledState{Path: "/their own/etcd/" + fillName, Mount: "/their own"}})
	want := "i=0; until grep -qF ' /their\\040own ' /proc/self/mountinfo || [ $i -ge 300 ]; do sleep 1; i=$((i+1)); done\n[ $i -lt 300 ] || rc=1\n" +
		"rm -f '/their own/etcd/" + fillName + "' || rc=1\nsystemctl reset-failed etcd.service 2>/dev/null\nsystemctl start --no-block etcd.service\nexit $rc\n"
	if !strings.HasSuffix(script, "\n"+want) {
		t.Errorf("the script is\n%s", script)
	}
}

// TestFillRefused: what holds anything but etcd's data, or is too large, is not filled, and the
// reason says what it is.
func TestFillRefused(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		make func(t *testing.T, dir string) (data string)
		want string
	}{
		"no member": {func(*testing.T, string) string { return "" }, "has no etcd member"},
		"another's directory beside the data": {func(t *testing.T, dir string) string {
			mountTmpfs(t, filepath.Join(dir, "lib"), "8m")
			mkdir(t, filepath.Join(dir, "lib", "kubelet"))
			return filepath.Join(dir, "lib", "etcd")
		}, "/lib/kubelet is on it as well; give etcd's data a volume of its own"},
		"another's directory in the data": {func(t *testing.T, dir string) string {
			mountTmpfs(t, filepath.Join(dir, "etcd"), "8m")
			mkdir(t, filepath.Join(dir, "etcd", "backups"))
			return filepath.Join(dir, "etcd")
		}, "/etcd/backups is on it as well"},
		"a directory of a file system that is mounted elsewhere": {func(t *testing.T, dir string) string {
			mountTmpfs(t, filepath.Join(dir, "all"), "8m")
			mkdir(t, filepath.Join(dir, "all", "own"))
			mkdir(t, filepath.Join(dir, "etcd"))
			must(t, unix.Mount(filepath.Join(dir, "all", "own"), filepath.Join(dir, "etcd"), "", unix.MS_BIND, ""))
			t.Cleanup(func() { _ = unix.Unmount(filepath.Join(dir, "etcd"), unix.MNT_DETACH) })
			return filepath.Join(dir, "etcd")
		}, "is the directory /own of a larger file system"},
		"more than may be taken": {func(t *testing.T, dir string) string {
			mountTmpfs(t, filepath.Join(dir, "etcd"), "1g")
			return filepath.Join(dir, "etcd")
		}, "on tmpfs holdfast takes 268435456 at most"},
		"the data are on another one": {func(t *testing.T, dir string) string {
			mountTmpfs(t, filepath.Join(dir, "etcd"), "8m")
			mountTmpfs(t, filepath.Join(dir, "etcd", "member"), "8m")
			return filepath.Join(dir, "etcd")
		}, "the directory member is on another one"},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t)
			if n.config.EtcdData = tc.make(t, t.TempDir()); n.config.EtcdData != "" {
				_ = os.MkdirAll(filepath.Join(n.config.EtcdData, "member"), 0o700)
			}
			n.up()
			check := n.CheckVolume(t.Context())
			_, fill := n.FillVolume(t.Context(), 0, time.Hour)
			for _, err := range []error{check, fill} {
				if !errors.Is(err, errors.ErrUnsupported) || !strings.Contains(err.Error(), tc.want) {
					t.Errorf("%v, want %q", err, tc.want)
				}
			}
			if left, err := n.Active(t.Context()); err != nil || len(left) > 0 || n.config.EtcdData != "" && exists(filepath.Join(n.config.EtcdData, fillName)) {
				t.Errorf("active are %q, %v", left, err)
			}
		})
	}
}

// TestFillRefusedOnRoot: neither the root file system is filled, nor one that a directory of it is
// mounted from.
func TestFillRefusedOnRoot(t *testing.T) {
	t.Parallel()
	dir, err := os.MkdirTemp("/", "etcd-")
	if err != nil {
		t.Skipf("the test needs a directory on the root file system: %v", err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	mkdir(t, filepath.Join(dir, "member"))
	if _, err := etcdVolume(dir); !errors.Is(err, errors.ErrUnsupported) || !strings.Contains(err.Error(), "it is that of /, on which the node has its other files") {
		t.Errorf("on the root file system: %v", err)
	}
	at := filepath.Join(t.TempDir(), "etcd")
	mkdir(t, at)
	if err := unix.Mount(dir, at, "", unix.MS_BIND, ""); err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { _ = unix.Unmount(at, unix.MNT_DETACH) })
	if _, err := etcdVolume(at); !errors.Is(err, errors.ErrUnsupported) || !strings.Contains(err.Error(), "it is that of /") {
		t.Errorf("mounted from the root file system: %v", err)
	}
}

func TestFindMount(t *testing.T) {
	const mounts = `22 1 8:1 / / rw - ext4 /dev/sda1 rw
30 22 8:17 / /var/lib/etcd rw - xfs /dev/sdb1 rw
31 30 8:33 /sub /var/lib/etcd rw - xfs /dev/sdc1 rw
32 22 8:49 / /var/lib/their\040etcd rw - ext4 /dev/sdd1 rw
odd
`
	for path, want := range map[string]mount{
		"/var/lib/etcd/member": {"/sub", "/var/lib/etcd"},
		"/var/lib/etcd":        {"/sub", "/var/lib/etcd"},
		"/var/lib/etcd-2":      {"/", "/"},
		"/var/lib/their etcd":  {"/", "/var/lib/their etcd"},
	} {
		if got, ok := findMount(mounts, path); !ok || got != want {
			t.Errorf("%s: %+v, want %+v", path, got, want)
		}
	}
	if _, ok := findMount("", "/"); ok {
		t.Error("without mounts, one is found")
	}
}
