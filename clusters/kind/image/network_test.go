package image

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// networkScript runs holdfast-network ($1) in namespaces of its own, on a node whose interface is
// replaced twice as when Docker disconnects and connects it: by one of the same name, then by another.
const networkScript = `
mount -t sysfs sys /sys
interface() {
	ip link add "$1" type veth peer name peer
	ip address add 10.88.0.5/24 dev "$1"
	ip link set peer up
	ip link set "$1" up
}
reached() {
	until ip route | grep "^10.244.0.0/16 dev $1 "; do sleep 0.1; done
	cat "/proc/sys/net/ipv4/conf/$1/proxy_arp"
	until nft list ruleset | grep -o "oifname \"$1\" masquerade"; do sleep 0.1; done
}
interface eth0
bash "$1" &
reached eth0
ip link delete eth0
interface eth0
reached eth0
ip link delete eth0
interface eth1
reached eth1
kill %1
`

// The service that connects a node's pods does so again whenever the interface was replaced.
func TestNetwork(t *testing.T) {
	t.Parallel()
	script, err := os.ReadFile("files/usr/local/bin/holdfast-network")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	kubeadm, file := filepath.Join(dir, "kubeadm.conf"), filepath.Join(dir, "network")
	for name, text := range map[string]string{
		kubeadm: "networking:\n  podSubnet: 10.244.0.0/16\n",
		file:    strings.ReplaceAll(string(script), "/kind/kubeadm.conf", kubeadm),
	} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, "unshare", "-Urnmp", "--fork", "--kill-child", "bash", "-ec", networkScript, "bash", file).CombinedOutput()
	var want string
	for _, device := range []string{"eth0", "eth0", "eth1"} {
		want += "10.244.0.0/16 dev " + device + " scope link \n1\noifname \"" + device + "\" masquerade\n"
	}
	if string(out) != want || err != nil {
		t.Errorf("%v:\n%s\nwant\n%s", err, out, want)
	}
}
