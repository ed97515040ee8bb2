package kind

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"strings"

	"github.com/holdfast-ha/holdfast/clusters/kind/internal/docker"
)

// network is a cluster's own network in the engine. Only an explicit subnet lets containers
// have fixed addresses.
type network struct {
	name   string
	subnet netip.Prefix
	// router is the engine's own address, if that is not the first one.
	router netip.Addr
}

// networkName is that of a cluster's network.
func networkName(cluster string) string { return "holdfast-" + cluster }

// subnets are the subnets to choose from: few, far from the engine's own.
func subnets() []netip.Prefix {
	var all []netip.Prefix
	for third := range byte(250) {
		all = append(all, netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 88, third, 0}), 24))
	}
	return all
}

// makeNetwork creates the network of a cluster in the first free subnet.
func makeNetwork(ctx context.Context, cli docker.CLI, cluster string) (network, error) {
	if err := removeNetwork(ctx, cli, cluster); err != nil { // of a deleted cluster
		return network{}, err
	}
	for _, subnet := range subnets() {
		n := network{name: networkName(cluster), subnet: subnet}
		_, err := cli.Run(ctx, "network", "create", "--driver", "bridge", "--subnet", subnet.String(),
			"--gateway", n.gateway().String(), "--label", networkLabel+"="+cluster,
			"--opt", "com.docker.network.bridge.enable_ip_masquerade=true", n.name)
		switch {
		case err == nil:
			return n, nil
		case docker.Says(err, "overlaps"):
		default:
			return network{}, fmt.Errorf("failed to make the network of cluster %s: %w", cluster, err)
		}
	}
	return network{}, fmt.Errorf("failed to make the network of cluster %s: every subnet of 10.88.0.0/16 is in use; remove networks with `docker network prune`", cluster)
}

// networkLabel marks the networks of clusters.
const networkLabel = "dev.holdfast.cluster"

func removeNetwork(ctx context.Context, cli docker.CLI, cluster string) error {
	if _, err := cli.Run(ctx, "network", "rm", networkName(cluster)); err != nil && !noNetwork(err) {
		return fmt.Errorf("failed to remove the network of cluster %s: %w", cluster, err)
	}
	return nil
}

// noNetwork reports whether a command failed because the network does not exist.
func noNetwork(err error) bool {
	return docker.Says(err, "no such network") || docker.Says(err, "not found")
}

// gateway is the engine's own address on the network, and the harness's.
func (n network) gateway() netip.Addr {
	if n.router.IsValid() {
		return n.router
	}
	return n.subnet.Addr().Next()
}

// balancer is the address of the load balancer: it must be known before the balancer exists,
// since the API servers' certificates contain it.
func (n network) balancer() netip.Addr {
	a := n.subnet.Addr().As4()
	a[3] = 250
	return netip.AddrFrom4(a)
}

// addedBase is the last byte of the address of the first node, if it were added to a running
// cluster. So addresses of added nodes are far from those that the engine picks.
const addedBase = 150

// added is the address of a node that is added to a running cluster, by its number: addresses
// are never reused.
func (n network) added(number int) (netip.Addr, error) {
	a := n.subnet.Addr().As4()
	last := addedBase + number - 1
	if last >= int(n.balancer().As4()[3]) {
		return netip.Addr{}, fmt.Errorf("the network %s has no unused address left for a node", n.name)
	}
	a[3] = byte(last)
	return netip.AddrFrom4(a), nil
}

// addressOf returns the address of a container on the network. While the container is off, it has
// only the one that it is pinned to.
func (n network) addressOf(c docker.Container) (netip.Addr, error) {
	on := c.NetworkSettings.Networks[n.name]
	if on.IPAddress == "" && on.IPAMConfig != nil {
		return netip.ParseAddr(on.IPAMConfig.IPv4Address)
	}
	return netip.ParseAddr(on.IPAddress)
}

// pin gives every container of a cluster a fixed address. Otherwise they get the next free one
// at each start.
func (n network) pin(ctx context.Context, cli docker.CLI, cluster string) error {
	all, err := machines(ctx, cli, cluster)
	if err != nil {
		return err
	}
	for _, c := range all {
		address := c.NetworkSettings.Networks[n.name].IPAddress
		if c.Config.Labels[roleLabel] == balancerRole {
			address = n.balancer().String()
		}
		if address == "" {
			return fmt.Errorf("failed to pin the addresses of cluster %s: %s has none in the network %s", cluster, c.Name, n.name)
		}
		for _, args := range [][]string{
			{"network", "disconnect", n.name, c.Name},
			{"network", "connect", "--ip", address, n.name, c.Name},
		} {
			if _, err := cli.Run(ctx, args...); err != nil {
				return fmt.Errorf("failed to pin the address %s of %s: %w", address, c.Name, err)
			}
		}
	}
	return nil
}

// role of containers.
const (
	controlPlaneRole = "control-plane"
	workerRole       = "worker"
	balancerRole     = "external-load-balancer"
)

// kindOrder sorts nodes as kind numbers them: a name without a number is the first.
func kindOrder(a, b string) int {
	number := func(s string) (string, string) {
		head := strings.TrimRight(s, "0123456789")
		return head, s[len(head):]
	}
	ha, na := number(a)
	hb, nb := number(b)
	return cmp.Or(cmp.Compare(ha, hb), cmp.Compare(len(na), len(nb)), cmp.Compare(na, nb))
}
