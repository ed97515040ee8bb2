package agent

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-ha/holdfast/clusters/system"
	"github.com/holdfast-ha/holdfast/framework"
)

// Config is an agent's configuration of its node.
type Config struct {
	// Socket is the path of the socket on which the agent serves requests.
	Socket string `json:"socket"`
	// Dir is where the agent keeps what its successor needs, also after a restart of the node.
	Dir string `json:"dir"`
	// Components are the processes that faults can act on.
	Components []Component `json:"components"`
	// Before are further systemd units that start components: they wait for the agent when the node
	// starts.
	Before []string `json:"before,omitempty"`
	// PKI is kubeadm's directory of certificates; empty if none exists.
	PKI string `json:"pki,omitempty"`
	// EtcdClient is how clients reach the node's etcd member.
	EtcdClient EtcdClient `json:"etcdClient,omitzero"`
	// EtcdData is the member's data directory; empty if none exists.
	EtcdData string `json:"etcdData,omitempty"`
	// Audit is the API server's audit log; empty if none exists.
	Audit string `json:"audit,omitempty"`
	// Sysctls are kernel settings of the node's network, which a restart of the node resets.
	Sysctls map[string]string `json:"sysctls,omitempty"`
	// Device is the network device that leads to the other nodes, as a pattern of path.Match:
	// the engine renumbers it when a container is reconnected. Empty if links are not to be
	// impaired.
	Device string `json:"device,omitempty"`
	// ControlPort is the TCP port of the node through which the harness reaches the agent, and
	// PeerControlPorts are those of the other nodes. The harness's traffic with ControlPort is
	// never impaired, nor, if the harness's address is the node's, that with PeerControlPorts.
	// 0 and empty if agents are not reached through the network.
	ControlPort      uint16   `json:"controlPort,omitempty"`
	PeerControlPorts []uint16 `json:"peerControlPorts,omitempty"`
	// Leash is the longest time between two requests of the harness: after it the agent ends
	// all faults. 0 if only the faults' own times end them.
	Leash time.Duration `json:"leash,omitempty"`
	// Run is the run that installs the agent; see agenthttp.Run.
	Run string `json:"run,omitempty"`
	// Exits is the file in which the machine's first process records how orphans exited, one
	// line each: the PID and procfs.ExitWords. The children of an agent that died are orphans.
	Exits string `json:"exits,omitempty"`
	// Groups is a file that lists the control groups that components join when the agent starts
	// them: cgroup.procs files by component. It exists only while such groups do.
	Groups string `json:"groups,omitempty"`
}

// EtcdClient is how clients of etcd authenticate: with the client certificate of the node's API
// server, or one that is on a host of an external etcd. No key leaves the node.
type EtcdClient struct {
	URL  string `json:"url,omitempty"` // of the node's own member, as reached from it; empty if it has none
	CA   string `json:"ca,omitempty"`
	Cert string `json:"cert,omitempty"`
	Key  string `json:"key,omitempty"`
}

// Component is one process that faults can act on.
type Component struct {
	Name framework.Component `json:"name"`
	// Command is the last element of the path in argv[0].
	Command string `json:"command,omitempty"`
	// Parent is the same of its parent process; empty means any. It distinguishes the first
	// process of a container from one that was started inside. It is also the process that is
	// stopped to leave a pod down.
	Parent string `json:"parent,omitempty"`
	// Manifest is the file of the static pod that the process belongs to, Unit the systemd
	// unit. Without both the agent cannot prevent a start of the process, and while it is held
	// down the agent kills each new one.
	Manifest string `json:"manifest,omitempty"`
	Unit     string `json:"unit,omitempty"`
	// Exec is set if the agent runs the component itself. Command and Parent are not used then.
	Exec *Exec `json:"exec,omitempty"`
	// With are the components that run in the same process.
	With []framework.Component `json:"with,omitempty"`
}

// Paths inside a node.
const (
	// BinaryPath is where holdfast's own file is installed; ConnectPath is a link to it.
	BinaryPath  = "/usr/local/bin/" + roleAgent
	ConnectPath = "/usr/local/bin/" + roleConnect
	// KeepPath is a link to BinaryPath for nodes without systemd.
	KeepPath   = "/usr/local/bin/" + roleKeep
	ConfigPath = "/etc/holdfast/agent.json"
	UnitPath   = "/etc/systemd/system/" + UnitName
	// UnitName is the systemd unit of the agent.
	UnitName = roleAgent + ".service"

	runDir        = "/run/holdfast"
	defaultSocket = runDir + "/agent.sock"
	// keptLog has the agents' output on a node without systemd.
	keptLog = runDir + "/agent.log"
	// On a volume: a node's /var outlives a restart.
	defaultDir = "/var/lib/holdfast"
	manifests  = "/etc/kubernetes/manifests/"
	shimName   = "containerd-shim-runc-v2"
)

// Node returns the configuration for a node with these components.
func Node(components ...Component) Config {
	return Config{Socket: defaultSocket, Dir: defaultDir, Device: "eth*", Components: components}
}

// ControlPlane returns the configuration for a control-plane node of kind.
// framework.NodeAgent, the process watcher of a node, is the kubelet.
func ControlPlane() Config {
	pod := func(c framework.Component) Component {
		return Component{Name: c, Command: string(c), Parent: shimName, Manifest: manifests + string(c) + ".yaml"}
	}
	c := Node(append([]Component{pod(framework.Etcd), pod(framework.APIServer), pod(framework.ControllerManager), pod(framework.Scheduler)},
		Worker().Components...)...)
	c.PKI, c.EtcdData, c.Audit = "/etc/kubernetes/pki", "/var/lib/etcd", "/var/log/kubernetes/audit.log"
	c.EtcdClient = EtcdClient{URL: "https://127.0.0.1:2379", CA: c.PKI + "/etcd/ca.crt", Cert: c.PKI + "/apiserver-etcd-client.crt", Key: c.PKI + "/apiserver-etcd-client.key"}
	return c
}

// Worker returns the configuration for a worker node of kind.
func Worker() Config {
	return Node(Component{Name: framework.NodeAgent, Command: "kubelet", Unit: "kubelet.service"},
		Component{Name: framework.ContainerRuntime, Command: "containerd", Unit: "containerd.service"})
}

// Balancer returns the configuration for the load balancer's container, whose process has this
// command.
func Balancer(command string) Config {
	return Node(Component{Name: framework.LoadBalancer, Command: command})
}

// deviceOf returns the first device that a pattern matches, or else the pattern itself.
func deviceOf(pattern string) string {
	devices, err := net.Interfaces()
	if err != nil {
		return pattern
	}
	for _, d := range devices {
		if ok, err := path.Match(pattern, d.Name); err == nil && ok {
			return d.Name
		}
	}
	return pattern
}

// readConfig reads the configuration of an agent.
func readConfig(file string) (c Config, err error) {
	err = system.ReadJSON(file, &c)
	if err == nil && (c.Socket == "" || c.Dir == "") {
		err = errors.New("it must name socket and dir")
	}
	if err != nil {
		return c, fmt.Errorf("failed to read the node agent's configuration %s: %w", file, err)
	}
	return c, nil
}

// Unit returns the agent's systemd unit. The kubelet and other units that start components wait
// until the agent has healed what it must after a restart of the node (Type=notify), but no
// longer than that may take. Nothing else depends on the unit, and it depends on nothing.
func Unit(c Config) string {
	before := []string{"kubelet.service", "containerd.service", "k3s.service", "rke2-server.service", "k0scontroller.service"}
	further := slices.Clone(c.Before)
	for _, one := range c.Components {
		further = append(further, one.Unit)
	}
	for _, unit := range further {
		if unit != "" && !slices.Contains(before, unit) {
			before = append(before, unit)
		}
	}
	return `[Unit]
Description=holdfast node agent: carries out faults on this node and heals them
Before=` + strings.Join(before, " ") + `
StartLimitIntervalSec=0

[Service]
Type=notify
NotifyAccess=main
ExecStart=` + BinaryPath + ` ` + ConfigPath + `
Restart=always
RestartSec=100ms
TimeoutStartSec=20s
TimeoutStopSec=5s
# A fault must be healed on a node that is short of memory.
OOMScoreAdjust=-999
KillMode=process

[Install]
WantedBy=multi-user.target
`
}

// Files returns the files to install on a node besides the binary, by path.
func Files(c Config) (map[string][]byte, error) {
	b, err := json.MarshalIndent(c, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("failed to write the node agent's configuration: %w", err)
	}
	files := map[string][]byte{ConfigPath: b, UnitPath: []byte(Unit(c))}
	if c.Leash > 0 {
		files[GuardPath], files[GuardUnitPath] = []byte(Guard(c.Leash)), []byte(guardUnit())
	}
	return files, nil
}

// LastWords is the shell script that prints the last output of agents on a node.
const LastWords = "tail -n 5 " + keptLog + " 2>/dev/null || journalctl --quiet --no-pager --output cat --lines 5 --unit " + UnitName

// Keep returns the shell script that replaces running agents by this one and keeps it running.
// It is for nodes without systemd, and never returns.
func Keep() string {
	return endAgents + `
ln -sf ` + BinaryPath + ` ` + ConnectPath + ` && ln -sf ` + BinaryPath + ` ` + KeepPath + ` && mkdir -p ` + runDir + `
exec ` + KeepPath + ` ` + ConfigPath + ` >` + keptLog + ` 2>&1
`
}

// SetUp returns the shell script that starts the agent on a node where its binary,
// configuration and unit are in place. It can be run again, for example with another version of
// them.
func SetUp() string {
	return `set -e
chmod 0755 ` + BinaryPath + `
ln -sf ` + BinaryPath + ` ` + ConnectPath + `
# A fault may cut the power before they are on disk.
sync
systemctl daemon-reload
systemctl enable ` + UnitName + `
systemctl restart ` + UnitName + `
if [ -e ` + GuardUnitPath + ` ]; then
	systemctl enable ` + GuardName + `
	systemctl restart ` + GuardName + `
fi
`
}
