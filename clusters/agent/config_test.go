package agent

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/holdfast-ha/holdfast/framework"
)

func TestConfig(t *testing.T) {
	t.Parallel()
	for what, c := range map[string]Config{"control plane": ControlPlane(), "worker": Worker(), "balancer": Balancer("envoy")} {
		files, err := Files(c)
		must(t, err)
		file := filepath.Join(t.TempDir(), "agent.json")
		must(t, os.WriteFile(file, files[ConfigPath], 0o600))
		if got, err := readConfig(file); err != nil || !reflect.DeepEqual(got, c) {
			t.Errorf("%s: read back as %+v, %v", what, got, err)
		}
		if unit := string(files[UnitPath]); !strings.Contains(unit, "ExecStart="+BinaryPath+" "+ConfigPath+"\n") {
			t.Errorf("%s: the unit does not start the agent:\n%s", what, unit)
		}
	}
	file := filepath.Join(t.TempDir(), "none")
	if _, err := readConfig(file); err == nil || !strings.Contains(err.Error(), file) {
		t.Errorf("a configuration that is not there: %v", err)
	}
	write(t, file, "{}")
	if _, err := readConfig(file); err == nil {
		t.Error("an empty configuration will do")
	}
}

// TestUnitBefore: what starts components waits for the agent, each unit once.
func TestUnitBefore(t *testing.T) {
	c := Node(Component{Name: framework.Etcd, Unit: "etcd.service"}, Component{Name: framework.NodeAgent, Unit: "kubelet.service"}, Component{Name: framework.Scheduler})
	c.Before = []string{"my-supervisor.service", "containerd.service", "etcd.service"}
	const want = "\nBefore=kubelet.service containerd.service k3s.service rke2-server.service k0scontroller.service my-supervisor.service etcd.service\n"
	if unit := Unit(c); !strings.Contains(unit, want) {
		t.Errorf("the unit is:\n%s", unit)
	}
}

// TestSetUpSyncs: the files of the agent are on disk before it can carry out a fault.
func TestSetUpSyncs(t *testing.T) {
	if sync, start := strings.Index(SetUp(), "\nsync\n"), strings.Index(SetUp(), "systemctl"); sync < 0 || sync > start {
		t.Errorf("it starts the agent before the files are on disk:\n%s", SetUp())
	}
}

func TestDeviceOf(t *testing.T) {
	for pattern, want := range map[string]string{"l*": "lo", "lo": "lo", "nothing*": "nothing*", "": ""} {
		if got := deviceOf(pattern); got != want {
			t.Errorf("%q is %q, want %q", pattern, got, want)
		}
	}
}
