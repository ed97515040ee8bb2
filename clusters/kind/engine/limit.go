package engine

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// Limit is a setting of this machine's kernel that nodes of kind soon reach.
type Limit struct {
	Sysctl string
	Wanted int
	file   string
}

// Inotify is how many instances of inotify(7) one user may have, in all containers
// together: about 28 are what a control-plane node takes, 15 a worker, and a kernel
// allows 128 unless told otherwise. In a node that gets no more of them systemd does
// not come up, or the kubelet ends. What is wanted is twice what kind's documentation
// advises ("pod errors due to too many open files"), for several clusters side by side.
var Inotify = Limit{Sysctl: "fs.inotify.max_user_instances", Wanted: 1024, file: "/proc/sys/fs/inotify/max_user_instances"}

// now is the setting, and 0 where it cannot be read.
func (l Limit) now() int {
	b, err := os.ReadFile(l.file)
	if err != nil {
		return 0
	}
	n, _ := strconv.Atoi(strings.TrimSpace(string(b)))
	return n
}

// raise raises what is too low and tells so, or reports what to do where it may not.
func (l Limit) raise(say func(format string, args ...any)) {
	was := l.now()
	if was == 0 || was >= l.Wanted {
		return
	}
	if err := os.WriteFile(l.file, []byte(strconv.Itoa(l.Wanted)), 0o644); err != nil {
		say("%s is %d, and nodes of kind may not come up: %s", l.Sysctl, was, l.Advice())
		return
	}
	say("%s is %d from now on (it was %d): nodes of kind need it", l.Sysctl, l.Wanted, was)
}

// Advice says how to raise it.
func (l Limit) Advice() string {
	return fmt.Sprintf("as root: sysctl -w %s=%d", l.Sysctl, l.Wanted)
}
