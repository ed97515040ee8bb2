package kind

import (
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/gofrs/flock"

	"github.com/holdfast-ha/holdfast/clusters"
	"github.com/holdfast-ha/holdfast/clusters/kind/internal/docker"
	"github.com/holdfast-ha/holdfast/framework"
)

// engineOfTheirs is a docker with another tool's cluster: a control-plane node, a worker, and
// kind's own network. Files in DIR change it.
const engineOfTheirs = `says() { echo "$1" >&2; exit 1; }
container() { # name role address ID
	echo "{\"Id\":\"$4\",\"Name\":\"/$1\",\"Config\":{\"Labels\":{\"io.x-k8s.kind.role\":\"$2\"}},\"State\":{\"Running\":$(if [ -f $DIR/off ]; then echo false; else echo true; fi)},"
	if [ -f $DIR/off-network ]; then echo "\"NetworkSettings\":{\"Networks\":{}}}"; return; fi
	echo "\"NetworkSettings\":{\"Networks\":{\"kind\":{\"IPAddress\":\"$3\"$(if [ -f $DIR/pinned ]; then echo ",\"IPAMConfig\":{\"IPv4Address\":\"$3\"}"; fi)}}}}"
}
added='{"Name":"/y-control-plane2","Config":{"Labels":{"io.x-k8s.kind.role":"control-plane","dev.holdfast.added":"true"}},"State":{"Running":true},"NetworkSettings":{"Networks":{"kind":{"IPAddress":"172.18.0.153"}}}}'
case "$*" in
"volume create "*) printf '%s\n' "${6#*=}" >$DIR/plan; if [ -f $DIR/kill ]; then mv $DIR/kill $DIR/killed; touch $DIR/off-network; fi; exit 0;;
"volume ls "*) cat $DIR/plan 2>/dev/null; exit 0;;
"volume rm "*) rm -f $DIR/plan $DIR/off-network; exit 0;;
"network rm kind"|"network connect"*) if [ -f $DIR/killed ]; then says "it was killed"; fi;;
"network disconnect"*) if [ -f $DIR/off-network ] && [ ! -f $DIR/killed ]; then says "container 2 is not connected to the network kind"; fi;;
esac
case "$*" in
*"ps --all"*network=*) echo y-control-plane; echo y-worker; cat $DIR/others 2>/dev/null;;
*"ps --all"*upgrade=y*) if [ -f $DIR/upgrade ]; then echo holdfast-upgrade-y; fi;;
*"ps --all"*cluster=y*) echo y-worker; echo y-control-plane;;
*"ps --all"*cluster=*) ;;
*"ps --all"*) echo y; echo x; echo y;;
"container inspect"*) echo "[$(container y-control-plane control-plane 172.18.0.3 2),$(container y-worker worker 172.18.0.2 1)$(if [ -f $DIR/added ]; then echo ",$added"; fi)]";;
"network inspect kind") cat <<END
[{"Name":"kind","Driver":"bridge","EnableIPv6":true,"Options":{"com.docker.network.driver.mtu":"1500"},"Labels":{},
  "IPAM":{"Config":[{"Subnet":"fc00:f853:ccd:e793::/64","Gateway":"fc00:f853:ccd:e793::1"},{"Subnet":"172.18.0.0/16","Gateway":"172.18.0.1"}]},
  "Containers":{"1":{"Name":"y-worker","IPv4Address":"172.18.0.2/16","IPv6Address":"fc00:f853:ccd:e793::2/64"},
    "2":{"Name":"y-control-plane","IPv4Address":"172.18.0.3/16","IPv6Address":""}}}]
END
;;
"network rm kind") if [ -f $DIR/busy ]; then says "has active endpoints"; fi;;
"network create"*) if [ -f $DIR/busy ]; then says "network with name kind already exists"; fi;;
"network connect --ip"*) if [ -f $DIR/busy ]; then says "only supported with user configured subnets"; fi;;
*"/kind/version") echo v1.36.3;;
*kube-scheduler.yaml) cat <<END
    - kube-scheduler
    - --leader-elect=true
    - --leader-elect-lease-duration=30s
    - --v=2
END
;;
*kube-controller-manager.yaml) echo "    - --node-monitor-grace-period=20s"; echo "    - --node-monitor-period=2s";;
*kube-apiserver.yaml) echo "    - --goaway-chance=0.01";;
*"[ -e "*) if [ -f $DIR/agent ]; then echo agent; fi;;
esac
true`

func touch(t *testing.T, dir, name string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(name+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
}

func calls(t *testing.T, dir string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, "calls"))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestDescribe(t *testing.T) {
	dir := fakeDocker(t, engineOfTheirs)
	if _, err := describe(t.Context(), docker.CLI{}, "z"); !errors.Is(err, clusters.ErrMissing) || !strings.Contains(err.Error(), "it has x, y") {
		t.Errorf("%v", err)
	}
	c, err := describe(t.Context(), docker.CLI{}, "y")
	if err != nil {
		t.Fatal(err)
	}
	if c.Metadata.Name != "y" || c.Spec.Workers != 1 || len(c.Spec.Nodes) != 1 || c.Spec.KubernetesVersion != "v1.36.3" || c.Spec.UID != "2" {
		t.Errorf("%+v", c)
	}
	flags := c.Spec.Nodes[0].ExtraArgs
	if want := (clusters.ExtraArgs{
		framework.APIServer:         {"goaway-chance": "0.01"},
		framework.ControllerManager: {"node-monitor-grace-period": "20s", "node-monitor-period": "2s"},
		framework.Scheduler:         {"leader-elect": "true", "leader-elect-lease-duration": "30s"},
	}); !reflect.DeepEqual(flags, want) {
		t.Errorf("%v, want %v", flags, want)
	}
	touch(t, dir, "off")
	if _, err := describe(t.Context(), docker.CLI{}, "y"); err == nil || !strings.Contains(err.Error(), "y-control-plane of cluster y is not running") {
		t.Errorf("%v", err)
	}
}

// TestAuditLog: an API server that another tool made may have its audit log anywhere, or none.
func TestAuditLog(t *testing.T) {
	const manifest = `spec:
  containers:
  - command:
    - kube-apiserver
    FLAG
    volumeMounts:
    - {name: logs, mountPath: /var/log/kubernetes}
    - {name: others, mountPath: /var/log}
  volumes:
  - {name: logs, hostPath: {path: /srv/logs}}
  - {name: others, hostPath: {path: /var/log}}
`
	for flag, want := range map[string]string{
		"":                     "",
		"- --audit-log-path=-": "",
		"- --audit-log-path=/var/log/kubernetes/audit.log": "/srv/logs/audit.log",
	} {
		if got, err := auditLogOf(strings.Replace(manifest, "FLAG", flag, 1)); err != nil || got != want {
			t.Errorf("%s: %q, %v, want %q", flag, got, err, want)
		}
	}
	n := &node{cluster: &Cluster{}}
	if n.AuditSupport() == nil {
		t.Error("an API server without an audit log can be followed")
	}
	if n.cluster.audit = nodeAuditLog; n.AuditSupport() != nil {
		t.Error("an API server with an audit log cannot be followed")
	}
}

func TestPinExisting(t *testing.T) {
	pin := func(dir string) (network, string, error) {
		t.Helper()
		var said strings.Builder
		n, err := pinExisting(t.Context(), docker.CLI{}, "y", func(s string) { said.WriteString(s) })
		if n.subnet != netip.MustParsePrefix("172.18.0.0/16") && err == nil || n.gateway() != netip.MustParseAddr("172.18.0.1") && err == nil {
			t.Errorf("%+v", n)
		}
		return n, said.String(), err
	}
	dir := fakeDocker(t, engineOfTheirs)
	if _, said, err := pin(dir); err != nil || !strings.Contains(said, "recreating") {
		t.Errorf("%s, %v", said, err)
	}
	want := `,"Containers":{"1":{"Name":"y-worker","IPv4Address":"172.18.0.2/16","IPv6Address":"fc00:f853:ccd:e793::2/64"},"2":{"Name":"y-control-plane","IPv4Address":"172.18.0.3/16","IPv6Address":""}}} holdfast-pinning-y
network disconnect kind y-control-plane
network disconnect kind y-worker
network rm kind
network create --driver bridge --ipv6 --subnet fc00:f853:ccd:e793::/64 --gateway fc00:f853:ccd:e793::1 --subnet 172.18.0.0/16 --gateway 172.18.0.1 --opt com.docker.network.driver.mtu=1500 kind
network connect --ip 172.18.0.3 kind y-control-plane
network connect --ip 172.18.0.2 --ip6 fc00:f853:ccd:e793::2 kind y-worker
volume rm --force holdfast-pinning-y
`
	if got := calls(t, dir); !strings.HasSuffix(got, want) {
		t.Errorf("%s", got)
	}

	// A network that cannot be made again is joined again all the same.
	dir = fakeDocker(t, engineOfTheirs)
	touch(t, dir, "busy")
	if _, _, err := pin(dir); err == nil || !strings.Contains(err.Error(), "has active endpoints") {
		t.Errorf("%v", err)
	}
	for _, name := range []string{"y-control-plane", "y-worker"} {
		if got := calls(t, dir); !strings.Contains(got, "network connect kind "+name+"\n") {
			t.Errorf("%s is on no network:\n%s", name, got)
		}
	}

	// Others are not touched, nor is what is pinned.
	for _, file := range []string{"others", "pinned"} {
		dir = fakeDocker(t, engineOfTheirs)
		touch(t, dir, file)
		_, said, err := pin(dir)
		if err != nil || strings.Contains(said, "not pinned") != (file == "others") {
			t.Errorf("%s: %q, %v", file, said, err)
		}
		if got := calls(t, dir); strings.Contains(got, "disconnect") {
			t.Errorf("%s:\n%s", file, got)
		}
	}
}

// Pinning that was killed while the containers had no network is finished by the next process that
// attaches or detaches.
func TestPinningKilled(t *testing.T) {
	for what, finish := range map[string]func() error{
		"attach": func() error {
			_, err := pinExisting(t.Context(), docker.CLI{}, "y", func(string) {})
			return err
		},
		"detach": func() error { return detach(t.Context(), docker.CLI{}, "y", false) },
	} {
		dir := fakeDocker(t, engineOfTheirs)
		touch(t, dir, "kill")
		if _, err := pinExisting(t.Context(), docker.CLI{}, "y", func(string) {}); err == nil || !strings.Contains(err.Error(), "it was killed") {
			t.Fatalf("%s: %v", what, err)
		}
		for _, name := range []string{"killed", "calls"} {
			if err := os.Remove(filepath.Join(dir, name)); err != nil {
				t.Fatal(err)
			}
		}
		touch(t, dir, "pinned")
		if err := finish(); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		wantCalls(t, dir, "network create --driver bridge --ipv6 --subnet fc00:f853:ccd:e793::/64 ", "network connect --ip 172.18.0.3 kind y-control-plane\n",
			"network connect --ip 172.18.0.2 --ip6 fc00:f853:ccd:e793::2 kind y-worker\n", "volume rm --force holdfast-pinning-y\n")
	}
	// The plan of an earlier cluster of the name is not carried out.
	dir := fakeDocker(t, engineOfTheirs)
	if err := os.WriteFile(filepath.Join(dir, "plan"), []byte(`{"Name":"kind","Containers":{"9":{"Name":"y-worker","IPv4Address":"172.18.0.7/16"}}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	touch(t, dir, "off-network")
	if err := detach(t.Context(), docker.CLI{}, "y", false); err != nil {
		t.Error(err)
	}
	if got := calls(t, dir); strings.Contains(got, "connect") || !strings.Contains(got, "volume rm --force holdfast-pinning-y\n") {
		t.Errorf("%s", got)
	}
}

// Agents are taken out where there are any, and what a killed upgrade left; machines that are off are
// brought back.
func TestDetach(t *testing.T) {
	dir := fakeDocker(t, engineOfTheirs)
	if err := detach(t.Context(), docker.CLI{}, "y", false); err != nil || strings.Contains(calls(t, dir), "--privileged") {
		t.Errorf("%v:\n%s", err, calls(t, dir))
	}
	touch(t, dir, "agent")
	touch(t, dir, "off")
	touch(t, dir, "added")
	touch(t, dir, "upgrade")
	if err := detach(t.Context(), docker.CLI{}, "y", false); err != nil {
		t.Error(err)
	}
	if got := calls(t, dir); strings.Contains(got, " y-control-plane2 ") {
		t.Errorf("the container of an added node is removed, and needs neither to start nor to answer:\n%s", got)
	}
	for _, want := range []string{"start y-worker", "exec --privileged y-worker sh -c rm -rf /var/lib/holdfast-upgrade\n", "exec --privileged y-control-plane sh -c rm -rf /var/lib/holdfast-upgrade\n",
		"rm --force --volumes holdfast-upgrade-y\n"} {
		if got := calls(t, dir); !strings.Contains(got, want) {
			t.Errorf("no %q:\n%s", want, got)
		}
	}
}

// A container that could not be brought back keeps its guard.
func TestCloseAttached(t *testing.T) {
	for _, test := range []struct {
		script string
		guards bool
	}{
		{engineOfTheirs, false},
		{"echo 'no such engine' >&2; exit 1", true},
	} {
		fakeDocker(t, test.script)
		g, err := startGuard(guardOrder{Container: "y-worker", Verb: "unpause", After: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		defer g.end()
		lock := flock.New(filepath.Join(t.TempDir(), "lock"))
		if err := lock.Lock(); err != nil {
			t.Fatal(err)
		}
		spec := clusters.Default()
		spec.Metadata.Name = "y"
		c := &attached{Cluster: newCluster(spec, Options{Dir: t.TempDir()}), lock: lock}
		n := c.newNode("y-worker", netip.MustParseAddr("172.18.0.2"), workerRole)
		n.guards = guards{"unpause": g}
		c.workers = append(c.workers, n)
		if err := c.Close(t.Context()); (err != nil) != test.guards {
			t.Errorf("%v", err)
		}
		select {
		case <-g.gone:
			if test.guards {
				t.Error("the guard was stopped")
			}
		case <-time.After(50 * time.Millisecond):
			if !test.guards {
				t.Error("the guard still runs")
			}
		}
	}
}
