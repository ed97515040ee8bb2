package agent

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"al.essio.dev/pkg/shellescape"
	"golang.org/x/sys/unix"

	"github.com/holdfast-ha/holdfast/clusters/agenthttp"
	"github.com/holdfast-ha/holdfast/clusters/etcddata"
)

// volume is a file system that holds the data of an etcd member and nothing else.
type volume struct {
	data   string // the data directory, without symbolic links
	point  string // where it is mounted
	device uint64
}

// lostAndFound is a directory that ext4 has on each file system.
const lostAndFound = "lost+found"

// fillable are the file systems that may be filled, by their magic number, and the most free space
// with which they are. Their fallocate reserves space without writing to it, so that a device with
// thin provisioning keeps its own, and they share their space with no other file system, as
// subvolumes of btrfs and data sets of ZFS do. 64 GiB are eight times the largest database that etcd
// recommends: more free space is hardly etcd's alone. On ext4, reserving 62 GiB takes 0.1 s and writes
// 2 MB. The space of a tmpfs is memory, and a node without memory is another fault.
var fillable = map[int64]struct {
	name string
	most uint64
}{
	unix.EXT4_SUPER_MAGIC: {"ext4", 64 << 30},
	unix.XFS_SUPER_MAGIC:  {"xfs", 64 << 30},
	unix.TMPFS_MAGIC:      {"tmpfs", 256 << 20},
}

// notFillable returns the refusal to fill the file system under a data directory.
func notFillable(data, format string, args ...any) error {
	return agenthttp.Unsupported(fmt.Sprintf("the file system of etcd's data in %s must not be filled: %s", data, fmt.Sprintf(format, args...)))
}

const ownVolume = "give etcd's data a volume of its own (ext4 or xfs), mounted on the data directory"

// etcdVolume returns the file system that holds a member's data. It refuses one that holds anything
// else: the kubelet, the container runtime and logs need space as well, and a node without any is
// another fault than a member without space.
func etcdVolume(data string) (volume, error) {
	if data == "" {
		return volume{}, errNoMember
	}
	path, err := filepath.EvalSymlinks(data)
	if err != nil {
		return volume{}, fmt.Errorf("failed to find etcd's data: %w", err)
	}
	m, err := mountOf(path)
	if err != nil {
		return volume{}, err
	}
	v := volume{data: path, point: m.point}
	if v.device, err = deviceAt(path); err != nil {
		return v, err
	}
	if err := m.own(data, v.device); err != nil {
		return v, err
	}
	if err := holdsOnly(data, m.point, path); err != nil {
		return v, err
	}
	if member, err := deviceAt(filepath.Join(path, etcddata.Member)); err != nil {
		return v, err
	} else if member != v.device {
		return v, notFillable(data, "the directory %s is on another one; %s", etcddata.Member, ownVolume)
	}
	return v, v.limited(data)
}

// own returns an error unless a file system is mounted as a whole, and not the root's.
func (m mount) own(data string, device uint64) error {
	root, err := deviceAt("/")
	if err != nil {
		return err
	}
	above, err := deviceAt(filepath.Dir(m.point))
	switch {
	case err != nil:
		return err
	case m.point == "/" || device == root:
		return notFillable(data, "it is that of /, on which the node has its other files; %s", ownVolume)
	case device == above:
		return notFillable(data, "it is that of %s as well; %s", filepath.Dir(m.point), ownVolume)
	case m.root != "/":
		return notFillable(data, "%s is the directory %s of a larger file system; %s", m.point, m.root, ownVolume)
	}
	return nil
}

// holdsOnly returns an error if a file system that is mounted above a data directory, or on it,
// holds anything else.
func holdsOnly(data, point, path string) error {
	for at := path; ; at = filepath.Dir(at) {
		entries, err := os.ReadDir(at)
		if err != nil {
			return fmt.Errorf("failed to check what shares the file system of etcd's data: %w", err)
		}
		for _, e := range entries {
			file := filepath.Join(at, e.Name())
			known := e.Name() == lostAndFound || file == filepath.Join(path, etcddata.Member) || at == path && e.Type().IsRegular()
			if !known && !strings.HasPrefix(path+"/", file+"/") {
				return notFillable(data, "%s is on it as well; %s, and move that elsewhere", file, ownVolume)
			}
		}
		if at == point || at == "/" {
			return nil
		}
	}
}

// limited returns an error if the file system is of a kind that is not filled, or has too much
// space.
func (v volume) limited(data string) error {
	st, err := v.stat()
	if err != nil {
		return err
	}
	kind, ok := fillable[int64(st.Type)]
	if !ok {
		return notFillable(data, "its kind (magic number %#x) is not one that can reserve space of its own without writing; use ext4 or xfs", st.Type)
	}
	if free := st.Bfree * uint64(st.Bsize); free > kind.most {
		return notFillable(data, "%d bytes of it are free, and on %s holdfast takes %d at most; use a smaller volume", free, kind.name, kind.most)
	}
	return nil
}

func (v volume) stat() (st unix.Statfs_t, err error) {
	if err = unix.Statfs(v.data, &st); err != nil {
		err = fmt.Errorf("failed to read the space of %s: %w", v.data, err)
	}
	return st, err
}

func deviceAt(path string) (uint64, error) {
	info, err := os.Stat(path)
	if err != nil {
		return 0, fmt.Errorf("failed to find the file system of %s: %w", path, err)
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, fmt.Errorf("failed to find the file system of %s: %w", path, errors.ErrUnsupported)
	}
	return st.Dev, nil
}

// mount is a mounted file system: the directory of it that is mounted, and where.
type mount struct{ root, point string }

// mountOf returns the mount that a path without symbolic links is on.
func mountOf(path string) (mount, error) {
	b, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return mount{}, fmt.Errorf("failed to find the file system of %s: %w", path, err)
	}
	m, ok := findMount(string(b), path)
	if !ok {
		return m, fmt.Errorf("failed to find the file system of %s: no mount leads there", path)
	}
	return m, nil
}

// findMount finds the mount of a path in the text of a mountinfo: the longest mount point, and of
// several file systems on the same one the last, which covers the others.
func findMount(mountinfo, path string) (found mount, ok bool) {
	for line := range strings.Lines(mountinfo) {
		fields := strings.Fields(line)
		if len(fields) < 5 {
			continue
		}
		m := mount{root: unescape(fields[3]), point: unescape(fields[4])}
		if strings.HasPrefix(path+"/", strings.TrimSuffix(m.point, "/")+"/") && len(m.point) >= len(found.point) {
			found, ok = m, true
		}
	}
	return found, ok
}

// unescape returns a path of a mountinfo as it is.
func unescape(path string) string {
	return strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(path)
}

// mountPoint returns where the file system of a directory is mounted.
func mountPoint(dir string) (string, error) {
	path, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return "", err
	}
	m, err := mountOf(path)
	return m.point, err
}

// mountedAt returns an error unless the file system of a directory is mounted where it was. When a
// node starts, the agent may run before a volume is mounted: what a fault left there is not gone.
func mountedAt(dir, point string) error {
	now, err := mountPoint(dir)
	if err == nil && now != point {
		err = fmt.Errorf("the file system of %s is not mounted at %s", dir, point)
	}
	return err
}

// awaitMount is the part of healScript that waits until a file system is mounted, for 5 minutes at most.
func awaitMount(point string) string {
	fixed := strings.NewReplacer(" ", `\040`, "\t", `\011`, "\n", `\012`, `\`, `\134`).Replace(point)
	return "i=0; until grep -qF " + shellescape.Quote(" "+fixed+" ") + " /proc/self/mountinfo || [ $i -ge 300 ]; do sleep 1; i=$((i+1)); done\n[ $i -lt 300 ] || rc=1\n"
}
