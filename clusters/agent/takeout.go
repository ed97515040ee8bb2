package agent

import (
	"context"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"time"

	"al.essio.dev/pkg/shellescape"
	"github.com/google/nftables"

	"github.com/holdfast-ha/holdfast/clusters/agenthttp"
	"github.com/holdfast-ha/holdfast/clusters/system"
	"github.com/holdfast-ha/holdfast/framework"
)

// Active reports what is active on the node, each with the time when it heals automatically; an
// empty result if there is nothing to heal.
func (c *Client) Active(ctx context.Context) (what []string, err error) {
	err = c.do(ctx, answerLimit, http.MethodGet, "active", "ask which faults are active", nil, &what)
	return what, err
}

// HealAll makes the agent heal everything now; see Active for what is left.
func (c *Client) HealAll(ctx context.Context) error {
	return c.do(ctx, answerLimit, http.MethodPost, "heal", "heal everything", nil, nil)
}

// active reports what is active, as text.
func (s *store) active() []string {
	all := []string{}
	if len(s.lost()) > 0 {
		all = append(all, "what an agent with lost state began")
	}
	add := func(what string, until time.Time) {
		all = append(all, fmt.Sprintf("%s until %s", what, until.Format(time.TimeOnly)))
	}
	s.read(func(st *state) {
		for name, c := range st.Components {
			for what, until := range map[string]time.Time{"is held down": c.HoldUntil, "is frozen": c.ThawAt, "is in a crash loop": c.CrashUntil} {
				if !until.IsZero() {
					add(string(name)+" "+what, until)
				}
			}
		}
		for name, spoilt := range st.Spoilt {
			add("certificates of "+string(name)+" are defective", spoilt.Until)
		}
		if st.Wiped != nil {
			add("the data of "+string(framework.Etcd)+" are wiped", st.Wiped.Until)
		}
		if st.Filled != nil {
			add("the file system of the data of "+string(framework.Etcd)+" is filled", st.Filled.Until)
		}
		for _, one := range st.Promises {
			add(one.Undoing.Fault+" is to be undone", one.Until)
		}
		for _, one := range st.Shifts {
			add(fmt.Sprintf("the clock of %v is shifted", one.Components), one.Until)
		}
		for _, one := range st.Impaired {
			add("links are impaired", one.Until)
		}
	})
	slices.Sort(all)
	return all
}

// Used returns the shell script that prints "used" if an agent runs or has run on a node,
// "unused" if files of one are there that never ran, also those of an installation that failed, and
// nothing if the node has no agent.
func Used() string {
	return "if [ -e " + stateFile(defaultDir) + " ]; then echo used; elif [ -e " + BinaryPath + " ] || [ -e " + ConfigPath + " ] || [ -e " + UnitPath + " ]; then echo unused; fi"
}

// RemoveUnused returns the shell script that removes the files of an agent that never ran.
func RemoveUnused() string {
	return "[ -e " + stateFile(defaultDir) + " ] || rm -rf " + BinaryPath + " " + filepath.Dir(ConfigPath) + " " + UnitPath + " " + GuardUnitPath
}

// InUse returns the shell script that prints for how many seconds the agent of a node has not
// received a request of another run, and that run; nothing if the node has no agent, or this run uses it.
func InUse() string {
	return `read -r _ asked _ run 2>/dev/null <` + runDir + "/" + aliveFile + ` && [ "$run" != ` + shellescape.Quote(agenthttp.Run()) +
		` ] && read -r now _ </proc/uptime && echo "$((${now%.*} - asked)) $run" || true`
}

// TakeOut returns the shell script that stops the agent and its guard, if they exist, heals
// what is active, as far as a shell can, and then removes both completely. It does not need
// holdfast's program. If the shell cannot heal something now, such as a certificate on a full file
// system, or the node restarts meanwhile, nothing is removed: the script fails, and the guard, after
// another leash, and the agent after a restart of the node, try again until they can. What only the
// agent can heal keeps it running.
func TakeOut() string {
	return `if [ -e ` + UnitPath + ` ]; then
	systemctl stop ` + UnitName + `
fi
# The guard itself comes to its end below.
if [ -e ` + GuardUnitPath + ` ] && [ "$(cat ` + guardPID + ` 2>/dev/null)" != $$ ]; then
	systemctl stop ` + GuardName + `
fi
` + endGuard + endAgents + `
undo() {
	failed=0
	for script in ` + lostScripts(defaultDir) + ` ` + undoFile(defaultDir) + `; do
		[ ! -e "$script" ] || { sh "$script" && rm -f "$script"; } || failed=1
	done
}
undo
` + letGoScript + `
` + manifestsScript() + `
` + BinaryPath + ` ` + clearArgument + ` 2>/dev/null || nft list tables 2>/dev/null | while read -r _ family name; do
	case "$name" in ` + table().Name + `|` + framesTable + `) nft delete table "$family" "$name";; esac
done
if [ $failed != 0 ] && [ "$(cat ` + guardPID + ` 2>/dev/null)" = $$ ]; then
	exec sh ` + GuardPath + `
fi
if [ $failed != 0 ]; then
	if [ -e ` + GuardUnitPath + ` ]; then
		systemctl start --no-block ` + GuardName + `
	elif [ -e ` + GuardPath + ` ]; then
		` + KeepGuard() + `	fi
	echo "not everything could be healed: ` + defaultDir + ` has the rest" >&2
	exit 1
fi
# Not before: a node that restarts while it is healed needs both.
for unit in ` + GuardUnitPath + ` ` + UnitPath + `; do
	[ -e "$unit" ] || continue
	systemctl disable "${unit##*/}"
	rm -f "$unit"
	systemctl daemon-reload
done
rm -rf ` + BinaryPath + ` ` + ConnectPath + ` ` + KeepPath + ` /etc/holdfast ` + runDir + ` ` + defaultDir + `
true
`
}

// Footprint returns what an agent puts on a node, and what it changes there. TakeOut removes and
// restores all of it but what is said to stay.
func Footprint() []string {
	return []string{
		"program " + BinaryPath + ", with the link " + ConnectPath + " (and " + KeepPath + " without systemd)",
		"configuration " + ConfigPath + ", state " + defaultDir + ", socket and log in " + runDir + ", and, while a script or the agent puts data back, the lock " + undoLock(Node()),
		"systemd unit " + UnitPath + " (a plain process without systemd)",
		"script " + GuardPath + " with the systemd unit " + GuardUnitPath + " (a plain process without systemd), which removes all of this if the agent is gone or receives no requests",
		"while a fault needs them, the tables " + table().Name + " and " + framesTable + " of nftables, network devices named " + detourDevice + "*, the setting rp_filter of the other devices, and defective certificates in place of the node's own",
		"while etcd's manifest or data is changed, the directory " + asideDir + " next to that of the static pods, and directories named .holdfast-* in the directory of etcd's data",
		"while a fault fills the file system of etcd's data, the file " + fillName + " in the data directory, which takes its space (only if that file system holds nothing else)",
		"stays: the annotation " + renewed + " in the manifest of a static pod that was started before its back-off ended, and that file's comments are lost (any change of the manifest, even removing the annotation, restarts the pod)",
		"stays: the arguments --initial-cluster and --initial-cluster-state in etcd's manifest, if its member was removed and added again, and that file's comments are lost (etcd ignores both while it has data)",
		"stays: the agent's lines in the systemd journal, and, until a reboot, the modules that the kernel loads for nftables and the devices",
		"no port is opened",
	}
}

// clearArgument makes the agent's program remove the nftables tables that agents left. Not
// every node has a program that can.
const clearArgument = "--clear"

func clearTables() error {
	conn, err := nftables.New()
	if err != nil {
		return err
	}
	all, err := conn.ListTables()
	if err != nil {
		return fmt.Errorf("failed to list the tables of nftables: %w", err)
	}
	for _, t := range all {
		if t.Name == table().Name || t.Name == framesTable {
			conn.DelTable(t)
		}
	}
	return conn.Flush()
}

// endAgents kills agents, their keepers, and the processes that connect clients to them.
const endAgents = `for p in /proc/[0-9]*; do
	read -r name <$p/comm || continue
	case "$name" in ` + commPrefix + `*) kill -9 ${p#/proc/};; esac
done 2>/dev/null`

// endGuard kills guards other than this very shell.
const endGuard = `guard=$(cat ` + guardPID + ` 2>/dev/null)
if [ -n "$guard" ] && [ "$guard" != $$ ] && tr '\0' ' ' <"/proc/$guard/cmdline" | grep -q ` + GuardPath + `; then
	kill -9 "$guard"
fi 2>/dev/null
`

// manifestsScript puts back the manifests that agents took away, and removes what they left
// beside them.
func manifestsScript() string {
	return `{ echo ` + filepath.Clean(manifests) + `; cat ` + manifestsFile(defaultDir) + `; } 2>/dev/null | while IFS= read -r dir; do
	aside="${dir%/*}/` + asideDir + `"
	rm -f "$dir"/.*` + system.TemporarySuffix + ` "$aside"/.*` + system.TemporarySuffix + `
	mv -f "$aside"/* "$dir"
	rmdir "$aside"
done 2>/dev/null`
}

// letGoScript lets all shims continue. It has no effect on one that was not stopped.
const letGoScript = `for p in /proc/[0-9]*; do
	read -r name <$p/comm || continue
	[ "$name" = ` + shimComm + ` ] && kill -CONT ${p#/proc/}
done 2>/dev/null`

// shimComm is a shim's name in the kernel.
const shimComm = "containerd-shim"

// commPrefix is the prefix of the kernel's names of the agent, its keeper and the processes
// that connect clients to it. The kernel keeps 15 characters.
const commPrefix = "holdfast-node-"
