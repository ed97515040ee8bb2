package agent

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"al.essio.dev/pkg/shellescape"

	"github.com/holdfast-ha/holdfast/clusters/procfs"
)

// An undo script may still run when the next one or the next agent starts: what started it was
// killed. Each of them would put the data of etcd back in place of what is there, and the second one
// would delete them. So each of them holds a lock: a symbolic link to "PID.TICKS", its own PID
// and start time. A link whose process has exited does not count.

// undoLock returns the path of the lock. It outlives the directories that TakeOut removes, and no
// restart of the node.
func undoLock(c Config) string { return filepath.Dir(c.Socket) + "-undo" }

// lockTries is after how many failures a script continues without a lock: the file system is full
// or cannot be written to.
const lockTries = 3

// lockScript is the shell script that waits for the lock, and releases it when the shell exits.
func lockScript(c Config) string {
	return `lock=` + shellescape.Quote(undoLock(c)) + `
ticks() { read -r stat <"/proc/$1/stat" && set -- ${stat##*) } && [ "$1" != Z ] && echo "${20}"; } 2>/dev/null
me=$$.$(ticks $$)
tries=0
until ln -sn "$me" "$lock" 2>/dev/null || [ "$tries" -ge ` + strconv.Itoa(lockTries) + ` ]; do
	if owner=$(readlink "$lock"); then
		[ "$(ticks "${owner%.*}")" = "${owner#*.}" ] || [ "$(readlink "$lock")" != "$owner" ] || rm -f "$lock"
	else
		tries=$((tries + 1))
	fi
	sleep 1
done
trap '[ "$(readlink "$lock")" != "$me" ] || rm -f "$lock"' EXIT
`
}

var errUndoing = errors.New("a script of an earlier agent is healing this node")

// takeUndoLock takes the lock for this process. It does not wait: errUndoing if another process has
// it. Like a script, it continues without a lock if none can be created.
func takeUndoLock(link string) (release func(), err error) {
	own, err := procfs.ReadStat("/proc", os.Getpid())
	if err != nil {
		return nil, err
	}
	me := fmt.Sprintf("%d.%d", os.Getpid(), own.StartTicks)
	err = os.Symlink(me, link)
	if owner, _ := os.Readlink(link); errors.Is(err, fs.ErrExist) && owner != me {
		if holds(owner) {
			return nil, errUndoing
		}
		_ = os.Remove(link) // its process was killed
		if err = os.Symlink(me, link); errors.Is(err, fs.ErrExist) {
			return nil, errUndoing
		}
	}
	if err != nil && !errors.Is(err, fs.ErrExist) {
		complain(fmt.Errorf("failed to lock out other scripts: %w", err))
	}
	return func() {
		if owner, _ := os.Readlink(link); owner == me {
			_ = os.Remove(link)
		}
	}, nil
}

// holds reports whether the process that a lock names runs.
func holds(owner string) bool {
	pid, ticks, _ := strings.Cut(owner, ".")
	p := procfs.Process{Proc: "/proc"}
	var err, ticksErr error
	p.PID, err = strconv.Atoi(pid)
	p.Stat.StartTicks, ticksErr = strconv.ParseUint(ticks, 10, 64)
	return err == nil && ticksErr == nil && !p.Over()
}
