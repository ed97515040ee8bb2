package agent

import (
	"context"
	"encoding/base64"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"al.essio.dev/pkg/shellescape"
	"golang.org/x/sys/unix"

	"github.com/holdfast-ha/holdfast/clusters/etcddata"
	"github.com/holdfast-ha/holdfast/clusters/system"
	"github.com/holdfast-ha/holdfast/framework"
)

// The guard is a plain shell script beside the agent that does not need holdfast's program. If
// the agent is gone, or hangs, the guard heals the node and removes holdfast from it; it does
// the same if the agent has nothing to heal and no request came for abandonAfter. systemd
// starts it with the node.

const (
	// GuardPath is the guard; GuardName its systemd unit.
	GuardPath     = "/etc/holdfast/guard.sh"
	GuardName     = "holdfast-node-guard.service"
	GuardUnitPath = "/etc/systemd/system/" + GuardName

	// aliveFile contains when the agent last did something, when the last request came, both in
	// seconds since the boot of the node, how many faults are active, and the run that uses the agent.
	aliveFile    = "alive"
	guardPID     = runDir + "/guard.pid"
	guardPause   = 2 * time.Second
	abandonAfter = 2 * time.Minute
	alivePause   = time.Second
)

// undoFile is the script that heals what is active, as far as a shell can. The agents of other nodes
// undo what was done through etcd, unless it takes this node as well.
func undoFile(dir string) string { return filepath.Join(dir, undoName) }

const undoName = "undo.sh"

// Guard returns the script of the guard of an agent that has a leash.
func Guard(leash time.Duration) string {
	return fmt.Sprintf(`#!/bin/sh
# Heals this node and takes holdfast out of it, if its agent is gone for %[1]d s, or has nothing
# to heal and no request for %[2]d s.
mkdir -p %[3]s
%[10]secho $$ >%[4]s
read -r now _ </proc/uptime
last=${now%%.*}
while sleep %[5]d; do
	[ -e %[6]s ] || [ -e %[7]s ] || exit 0
	read -r now _ </proc/uptime
	now=${now%%.*}
	read -r beat asked active _ <%[3]s/%[8]s && [ "$beat" -gt "$last" ] && last=$beat
	[ "$((now - last))" -ge %[1]d ] && break
	[ "$active" = 0 ] && [ "$((now - asked))" -ge %[2]d ] && break
done 2>/dev/null
%[9]s`, int(leash.Seconds()), int(abandonAfter.Seconds()), runDir, guardPID, int(guardPause.Seconds()), BinaryPath, stateFile(defaultDir), aliveFile, TakeOut(), endGuard)
}

// guardUnit returns the systemd unit of the guard.
func guardUnit() string {
	return `[Unit]
Description=holdfast node guard: takes the node agent out if it is gone
StartLimitIntervalSec=0

[Service]
ExecStart=/bin/sh ` + GuardPath + `
Restart=on-failure
RestartSec=1s
OOMScoreAdjust=-999
KillMode=process

[Install]
WantedBy=multi-user.target
`
}

// KeepGuard returns the shell script that starts the guard without systemd.
func KeepGuard() string {
	return "setsid sh " + GuardPath + " </dev/null >/dev/null 2>&1 &\n"
}

// sinceBoot returns the time since the boot of the node, which clock changes do not affect.
func sinceBoot() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &t); err != nil {
		return 0
	}
	return time.Duration(t.Nano())
}

// beat shows the guard that the agent is alive, until ctx ends.
func (a *agent) beat(ctx context.Context) {
	if a.config.Leash == 0 {
		return
	}
	file := filepath.Join(filepath.Dir(a.config.Socket), aliveFile)
	every := time.NewTicker(alivePause)
	defer every.Stop()
	for {
		run, asked := a.owner.last()
		line := fmt.Sprintf("%d %d %d %s\n", sinceBoot()/time.Second, asked/time.Second, len(a.store.active()), run)
		if err := system.ReplaceFile(file, []byte(line), 0o600, false); err != nil {
			complain(fmt.Errorf("failed to show the guard that the agent is alive: %w", err))
		}
		select {
		case <-ctx.Done():
			return
		case <-every.C:
		}
	}
}

// healScript returns the shell script that heals what is active on a node; empty if nothing is. Its exit
// status is 1 if it could not heal something that it must not forget.
func healScript(c Config, st *state) string {
	var b strings.Builder
	for _, one := range c.Components {
		s := st.Components[one.Name]
		if s == nil {
			continue
		}
		if !s.ThawAt.IsZero() && s.PID != 0 {
			fmt.Fprintf(&b, "kill -CONT %d\n", s.PID)
		}
		for _, shim := range s.Stopped {
			fmt.Fprintf(&b, "kill -CONT %d\n", shim.PID)
		}
		if s.HoldUntil.IsZero() {
			continue
		}
		switch {
		case one.Unit != "":
			b.WriteString(startUnit(one.Unit) + "\n")
		case one.Manifest != "":
			m := manifest(one.Manifest)
			from, to := shellescape.Quote(m.aside().path()), shellescape.Quote(m.path())
			fmt.Fprintf(&b, "[ ! -e %s ] || mv %[1]s %s || rc=1\n", from, to)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(st.Spoilt)) {
		for _, path := range slices.Sorted(maps.Keys(st.Spoilt[name].Own)) {
			b.WriteString(st.Spoilt[name].putBackScript(path))
		}
	}
	b.WriteString(filterScript(st.Filters))
	if r := st.Restoring; r != nil {
		fmt.Fprintf(&b, "%srm -rf %s || rc=1\n", awaitMount(r.Mount), shellescape.Quote(r.Path))
	}
	if st.Filled != nil {
		b.WriteString(unfilling(c, st.Filled))
	}
	if st.Wiped != nil {
		b.WriteString(awaitMount(st.Wiped.Mount) + unwiping(c))
	}
	if slices.ContainsFunc(slices.Collect(maps.Values(st.Promises)), (*promiseState).ofOwnNode) {
		b.WriteString(onlyAgent)
	}
	if b.Len() == 0 {
		return ""
	}
	return lockScript(c) + "rc=0\n" + b.String() + "exit $rc\n"
}

// onlyAgent is for what only the agent of this node can heal: its etcd member is to be added again. An
// agent whose state is lost, so that this script has another name, cannot do it.
const onlyAgent = `if [ "${0##*/}" = ` + undoName + ` ] && [ -e ` + BinaryPath + ` ] && systemctl start --no-block ` + UnitName + `; then
	echo "the agent keeps running, since it is to add the etcd member of this node again" >&2
	rc=1
else
	echo "the etcd member of this node was removed: add it again by hand" >&2
fi
`

// putBackScript returns the shell script that puts a certificate back, unless it was replaced in the
// meantime; see ours.
func (s *spoiltState) putBackScript(path string) string {
	own, quoted := base64.StdEncoding.EncodeToString(s.Own[path]), shellescape.Quote(path)
	// In its place, so that mode, owner and label stay; and beside it first, since there may be
	// no space for it.
	script := fmt.Sprintf("echo %s | base64 -d >%s && cat %[2]s >%s || rc=1\nrm -f %[2]s\n", own, shellescape.Quote(system.Temporary(path)), quoted)
	bad, known := s.Bad[path]
	if !known {
		return script
	}
	return fmt.Sprintf(`now=$(cat %[1]s) own=$(echo %[2]s | base64 -d) bad=$(echo %[3]s | base64 -d)
case "$own" in "$now"*) now=$bad;; esac
if [ "$now" = "$bad" ]; then
%[4]selse
	echo %[1]s "was replaced while a defective certificate was in its place, and stays" >&2
fi
`, quoted, own, base64.StdEncoding.EncodeToString(bad), script)
}

// unwiping returns the shell script that puts the data of etcd back while no member can start:
// it stops the member's unit, or what would start it.
func unwiping(c Config) string {
	i := slices.IndexFunc(c.Components, func(one Component) bool { return one.Name == framework.Etcd })
	if i < 0 || c.EtcdData == "" {
		return ""
	}
	e := etcd{data: c.EtcdData}
	stop, start := "", ""
	if unit := c.Components[i].Unit; unit != "" {
		stop, start = stopUnit(unit), startUnit(unit)
	} else {
		stop = podScript + `own=$(pod self)
for p in /proc/[0-9]*; do
	IFS= read -r args <"$p/cmdline" || [ -n "$args" ] || continue
	args=$(tr '\0' '\n' <"$p/cmdline" | head -n 1)
	[ "${args##*/}" = ` + shellescape.Quote(c.Components[i].Command) + ` ] || continue
	in=$(pod "${p#/proc/}")
	[ "$in" = "$own" ] || [ -z "$in" ] || grep -q -- "$in" ` + shellescape.Quote(c.Components[i].Manifest) + ` || continue
	read -r stat <"$p/stat" && set -- ${stat##*) } && [ "$2" -gt 1 ] && kill -STOP "$2" && started="$started $2"
	kill -9 "${p#/proc/}"
done 2>/dev/null`
		start = `[ -z "$started" ] || kill -CONT $started`
	}
	own, place := shellescape.Quote(e.aside()), shellescape.Quote(filepath.Join(c.EtcdData, etcddata.Member))
	// What is there is deleted only after the member's own data are in its place.
	return fmt.Sprintf(`if [ -d %[1]s ]; then
%[3]s
old=%[5]s$$
if [ -d %[1]s ]; then
	{ [ ! -e %[2]s ] || mv %[2]s "$old"; } && mv %[1]s %[2]s && rm -rf "$old" || rc=1
	[ -e %[2]s ] || [ ! -e "$old" ] || mv "$old" %[2]s
fi
%[4]s
fi
`, own, place, stop, start, shellescape.Quote(filepath.Join(c.EtcdData, etcddata.Others+"replaced-")))
}

// writeHealing updates the script that heals what is active, before a fault begins.
func (s *store) writeHealing(durable bool) error {
	script := healScript(s.config, &s.s)
	if script == s.healing {
		return nil
	}
	file := undoFile(filepath.Dir(s.file))
	var err error
	if script == "" {
		if err = os.Remove(file); os.IsNotExist(err) {
			err = nil
		}
	} else {
		err = s.replace(file, []byte(script), 0o600, durable)
	}
	if err == nil {
		s.healing = script
	}
	return err
}
