package remote

import (
	"cmp"
	"context"
	"encoding/base64"
	"fmt"
	"maps"
	"net/netip"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"al.essio.dev/pkg/shellescape"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/holdfast-ha/holdfast/clusters"
	"github.com/holdfast-ha/holdfast/clusters/procfs"
)

// lookScript returns the script that prints the processes of a node, in lines of fields separated by
// a byte that arguments do not contain, and those manifests of static pods that exist: it changes
// nothing. Its $1 is sshd's SSH_CONNECTION.
func lookScript(manifests ...string) string {
	script := processScript
	for _, file := range manifests {
		script += "manifest " + shellescape.Quote(file) + "\n"
	}
	return script + "true\n"
}

// printf prints what it does not know beforehand as it is, unlike dash's echo.
const processScript = `printf '%s\n' "connection $1"
echo "host $(cat /proc/sys/kernel/hostname)"
echo "machine $(cat /etc/machine-id 2>/dev/null)"
echo "boot $(cat /proc/sys/kernel/random/boot_id)"
echo "network $(readlink /proc/self/ns/net)"
if [ -d /run/systemd/system ]; then echo systemd; fi
ip -o address show 2>/dev/null | while read -r _ device _ address _; do echo "address $device $address"; done
for p in /proc/[0-9]*; do
	read -r stat <"$p/stat" || continue
	args=$(tr '\0\n' '\037 ' <"$p/cmdline") || continue
	[ -n "$args" ] && set -- ${stat##*) } && printf '%s\n' "process ${p#/proc/} $2 $args"
done 2>/dev/null
for p in /proc/[0-9]*; do
	read -r name <"$p/comm" && [ "$name" = etcd ] || continue
	printf '%s\n' "environment ${p#/proc/} $(tr '\0\n' '\n ' <"$p/environ" | grep -E '^ETCD_(` + etcdVariables + `)=' | tr '\n' '\037')"
done 2>/dev/null
grep -s -H -o '[^/]*\.service$' /proc/[0-9]*/cgroup | sed 's,^/proc/\([0-9]*\)/cgroup:,unit \1 ,'
grep -s -H -m 1 '[/-]pod[0-9a-f]' /proc/[0-9]*/cgroup | sed 's,^/proc/\([0-9]*\)/cgroup:,cgroup \1 ,'
for f in /proc/net/tcp /proc/net/tcp6; do
	while read -r _ at _ state _; do [ "$state" = 0A ] && echo "listen ${at##*:}"; done <"$f"
done 2>/dev/null
manifest() { [ ! -f "$1" ] || echo "manifest $1 $(base64 <"$1" | tr -d '\n')"; }
`

const argumentEnd = "\x1f"

// etcdVariables are the environment variables of etcd that are read, without their prefix: they
// stand for flags that are not given. Others may be secrets.
const etcdVariables = "ELECTION_TIMEOUT|HEARTBEAT_INTERVAL|DATA_DIR|WAL_DIR|CONFIG_FILE|LISTEN_CLIENT_URLS|ADVERTISE_CLIENT_URLS|INITIAL_ADVERTISE_PEER_URLS|" +
	"TRUSTED_CA_FILE|CERT_FILE|KEY_FILE|CLIENT_CERT_AUTH|PEER_CERT_FILE|PEER_KEY_FILE"

// sight is the state that was seen on a node.
type sight struct {
	systemd bool
	silent  bool   // the API server on the node does not answer
	host    string // the machine's own host name
	// machine and boot are the IDs of the machine and of its boot; empty if it has none.
	machine, boot string
	// network is the kernel's name of the network namespace that sshd is in.
	network string
	// client and port are the harness's address and sshd's port, as the node sees them.
	client netip.Addr
	port   uint16
	// devices are the network devices by their addresses.
	devices   map[netip.Addr]string
	processes []process
	// units are the systemd units of processes, by PID, and pods the UIDs of their pods, except for
	// static pods.
	units, pods map[int]string
	manifests   map[string]corev1.Pod // of static pods, by path
	// listening are the TCP ports on which a process accepts connections.
	listening map[string]bool
}

// process is a process on a node.
type process struct {
	pid, parent int
	args        []string
	// from are the sources of those flags among the arguments that its command line does not have.
	from map[string]string
}

// name is the last element of the path in argv[0].
func (p process) name() string { return filepath.Base(p.args[0]) }

// flag returns the value of a flag among the arguments. Of several, the last one counts, in etcd as in
// Kubernetes, which also accepts _ for - (WordSepNormalizeFunc in k8s.io/component-base/cli/flag).
func (p process) flag(name string) (last string) {
	for i, arg := range p.args[1:] {
		flag, value, given := cutFlag(arg)
		switch {
		case flag != name:
		case given:
			last = value
		case i+2 < len(p.args) && !strings.HasPrefix(p.args[i+2], "--"):
			last = p.args[i+2]
		default:
			last = "true"
		}
	}
	return last
}

// cutFlag returns the name of a flag, and the value that is in the same argument.
func cutFlag(arg string) (name, value string, given bool) {
	bare := strings.TrimPrefix(strings.TrimPrefix(arg, "-"), "-")
	if bare == arg {
		return "", "", false
	}
	name, value, given = strings.Cut(bare, "=")
	return strings.ReplaceAll(name, "_", "-"), value, given
}

// with returns the process with further flags from a source. They precede the others, which
// therefore have precedence.
func (p process) with(source string, flags ...string) process {
	from := map[string]string{}
	for _, text := range flags {
		if name, _, _ := cutFlag(text); name != "" && p.flag(name) == "" {
			from[name] = source
		}
	}
	maps.Copy(from, p.from)
	p.args, p.from = slices.Insert(slices.Clone(p.args), 1, flags...), from
	return p
}

// source returns where the process has the value of a flag from.
func (p process) source(flag string) string { return cmp.Or(p.from[flag], "its command line") }

// look returns the state of a node, with those of the manifests that exist.
func (s shell) look(ctx context.Context, manifests ...string) (*sight, error) {
	out, err := s.run(ctx, lookScript(manifests...))
	if err != nil {
		return nil, err
	}
	return parseSight(out)
}

// lookFor returns the state of a node, with all that the profiles of a distribution need.
func (s shell) lookFor(ctx context.Context, distribution string, n clusters.InventoryNode) (*sight, error) {
	manifests, err := manifestsFor(distribution, n)
	if err != nil {
		return nil, err
	}
	return s.look(ctx, manifests...)
}

// parseSight parses the output of lookScript. Other lines from the shell, such as a banner, are
// ignored.
func parseSight(out string) (*sight, error) {
	s := &sight{devices: map[netip.Addr]string{}, units: map[int]string{}, pods: map[int]string{}, manifests: map[string]corev1.Pod{}, listening: map[string]bool{}}
	for line := range strings.Lines(out) {
		kind, rest, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		fields := strings.Fields(rest)
		switch {
		case kind == "systemd" && rest == "":
			s.systemd = true
		case kind == "host" && len(fields) == 1:
			s.host = fields[0]
		case kind == "machine" && len(fields) == 1:
			s.machine = fields[0]
		case kind == "boot" && len(fields) == 1:
			s.boot = fields[0]
		case kind == "network" && len(fields) == 1:
			s.network = fields[0]
		case kind == "connection" && len(fields) == 4:
			client, err := netip.ParseAddr(fields[0])
			port, problem := strconv.ParseUint(fields[3], 10, 16)
			if err == nil && problem == nil {
				s.client, s.port = client.Unmap().WithZone(""), uint16(port)
			}
		case kind == "address" && len(fields) == 2:
			text, _, _ := strings.Cut(fields[1], "/") // that of a point-to-point link has no prefix length
			if address, err := netip.ParseAddr(text); err == nil {
				s.devices[address] = fields[0]
			}
		case kind == "manifest" && len(fields) == 2:
			text, err := base64.StdEncoding.DecodeString(fields[1])
			var pod corev1.Pod
			if err == nil {
				err = yaml.Unmarshal(text, &pod)
			}
			if err != nil {
				return nil, fmt.Errorf("failed to read the manifest %s: %w", fields[0], err)
			}
			s.manifests[fields[0]] = pod
		case kind == "unit" && len(fields) == 2:
			if pid, err := strconv.Atoi(fields[0]); err == nil {
				s.units[pid] = fields[1]
			}
		case kind == "cgroup" && len(fields) == 2:
			pid, err := strconv.Atoi(fields[0])
			if uid := procfs.ScheduledPod(fields[1]); err == nil && uid != "" {
				s.pods[pid] = uid
			}
		case kind == "listen" && len(fields) == 1:
			if port, err := strconv.ParseUint(fields[0], 16, 16); err == nil {
				s.listening[strconv.FormatUint(port, 10)] = true
			}
		case kind == "process":
			if p, ok := parseProcess(rest); ok {
				s.processes = append(s.processes, p)
			}
		case kind == "environment":
			pid, variables, _ := strings.Cut(rest, " ")
			for i, p := range s.processes {
				if strconv.Itoa(p.pid) == pid {
					s.processes[i] = p.with("its environment", flagsOf(variables)...)
				}
			}
		}
	}
	if len(s.processes) == 0 {
		return nil, fmt.Errorf("no process can be seen: is /proc mounted?")
	}
	return s, nil
}

// flagsOf returns the flags for which environment variables of etcd stand. After the given ones,
// they are what etcd uses if those are missing.
func flagsOf(variables string) (flags []string) {
	for _, v := range strings.Split(variables, argumentEnd) {
		name, value, ok := strings.Cut(strings.TrimPrefix(v, "ETCD_"), "=")
		if ok && value != "" {
			flags = append(flags, "--"+strings.ReplaceAll(strings.ToLower(name), "_", "-")+"="+value)
		}
	}
	return flags
}

func parseProcess(text string) (p process, ok bool) {
	fields := strings.SplitN(text, " ", 3)
	if len(fields) < 3 {
		return p, false
	}
	var err, problem error
	p.pid, err = strconv.Atoi(fields[0])
	p.parent, problem = strconv.Atoi(fields[1])
	p.args = strings.Split(strings.TrimSuffix(fields[2], argumentEnd), argumentEnd)
	return p, err == nil && problem == nil && p.args[0] != ""
}

// find returns the processes with a command and, if one is given, a parent with another command,
// by PID, without those whose parent is among them: they were started inside.
func (s *sight) find(command, parent string) (found []process) {
	var all []process
	for _, p := range s.processes {
		if p.name() == command && (parent == "" || s.nameOf(p.parent) == parent) {
			all = append(all, p)
		}
	}
	for _, p := range all {
		if !slices.ContainsFunc(all, func(o process) bool { return o.pid == p.parent }) {
			found = append(found, p)
		}
	}
	slices.SortFunc(found, func(a, b process) int { return cmp.Compare(a.pid, b.pid) })
	return found
}

func (s *sight) nameOf(pid int) string {
	for _, p := range s.processes {
		if p.pid == pid {
			return p.name()
		}
	}
	return ""
}
