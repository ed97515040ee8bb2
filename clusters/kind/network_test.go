package kind

import (
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-ha/holdfast/clusters/kind/internal/docker"
)

func TestKindOrder(t *testing.T) {
	names := []string{"x-worker2", "x-control-plane10", "x-control-plane", "x-worker", "x-control-plane2"}
	slices.SortFunc(names, kindOrder)
	if got := strings.Join(names, " "); got != "x-control-plane x-control-plane2 x-control-plane10 x-worker x-worker2" {
		t.Error(got)
	}
}

// The first subnet is taken by another network.
func TestMakeNetwork(t *testing.T) {
	dir := fakeDocker(t, `case "$*" in
*10.88.0.0/24*) echo "Pool overlaps with other one on this address space" >&2; exit 1;;
"network rm"*) echo "Error: No such network: holdfast-x" >&2; exit 1;;
esac`)
	n, err := makeNetwork(t.Context(), docker.CLI{}, "x")
	if err != nil {
		t.Fatal(err)
	}
	if n.name != "holdfast-x" || n.gateway() != netip.MustParseAddr("10.88.1.1") || n.balancer() != netip.MustParseAddr("10.88.1.250") {
		t.Errorf("%+v %s %s", n, n.gateway(), n.balancer())
	}
	calls, _ := os.ReadFile(filepath.Join(dir, "calls"))
	if !strings.Contains(string(calls), "--label dev.holdfast.cluster=x") {
		t.Errorf("the network has no label:\n%s", calls)
	}
}

// Every container keeps the address that it has, but for the balancer.
func TestPin(t *testing.T) {
	dir := fakeDocker(t, `case "$1" in
ps) echo x-control-plane; echo x-external-load-balancer;;
container) cat <<END
[{"Name":"/x-external-load-balancer","Config":{"Labels":{"io.x-k8s.kind.role":"external-load-balancer"}},
  "NetworkSettings":{"Networks":{"holdfast-x":{"IPAddress":"10.88.0.2"}}}},
 {"Name":"/x-control-plane","Config":{"Labels":{"io.x-k8s.kind.role":"control-plane"}},
  "NetworkSettings":{"Networks":{"holdfast-x":{"IPAddress":"10.88.0.3"}}}}]
END
;;
esac`)
	n := network{name: "holdfast-x", subnet: netip.MustParsePrefix("10.88.0.0/24")}
	if err := n.pin(t.Context(), docker.CLI{}, "x"); err != nil {
		t.Fatal(err)
	}
	calls, _ := os.ReadFile(filepath.Join(dir, "calls"))
	for _, want := range []string{
		"network disconnect holdfast-x x-control-plane\nnetwork connect --ip 10.88.0.3 holdfast-x x-control-plane\n",
		"network connect --ip 10.88.0.250 holdfast-x x-external-load-balancer\n",
	} {
		if !strings.Contains(string(calls), want) {
			t.Errorf("no %q in:\n%s", want, calls)
		}
	}
}
