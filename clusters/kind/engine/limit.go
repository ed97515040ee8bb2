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

// Inotify is how many instances of inotify(7) one user may have, in all containers together: a
// control-plane node uses about 28, a worker 15, and a kernel allows 128 by default. In a node
// that cannot have more of them systemd does not come up, or the kubelet exits. The target is
// twice what kind's documentation recommends ("pod errors due to too many open files"), for
// several clusters on one machine.
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

// raise raises a limit that is too low and reports it, or says what to do if it may not.
func (l Limit) raise(say func(format string, args ...any)) {
	was := l.now()
	if was == 0 || was >= l.Wanted {
		return
	}
	if err := os.WriteFile(l.file, []byte(strconv.Itoa(l.Wanted)), 0o644); err != nil {
		say("%s is %d, and nodes of kind may not come up: %s", l.Sysctl, was, l.Advice())
		return
	}
	say("set %s to %d (was %d), which kind's nodes need", l.Sysctl, l.Wanted, was)
}

// Advice says how to raise it.
func (l Limit) Advice() string {
	return fmt.Sprintf("as root: sysctl -w %s=%d", l.Sysctl, l.Wanted)
}
