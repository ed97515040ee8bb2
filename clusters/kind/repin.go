package kind

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/holdfast-ha/holdfast/clusters/kind/internal/docker"
)

// Docker gives a container a fixed address only on a network with an explicit subnet. kind's
// network has none. So pinning the addresses of an existing cluster recreates its network with
// the same settings. Meanwhile the containers have no network: a volume has the plan in a label, so that
// the next process that attaches or detaches finishes it if this one is killed. It is as durable
// as the containers.

// pinLabel marks the volume of a cluster, and planLabel has the network before, as JSON.
const (
	pinLabel  = "dev.holdfast.pinning"
	planLabel = "dev.holdfast.pinning.plan"
)

func pinVolume(cluster string) string { return "holdfast-pinning-" + cluster }

// existing is a network that another tool created.
type existing struct {
	Name       string
	Driver     string
	EnableIPv6 bool
	Labels     map[string]string
	Options    map[string]string
	IPAM       struct {
		Config []struct{ Subnet, Gateway string }
	}
	// Containers are the running ones, by ID.
	Containers map[string]struct{ Name, IPv4Address, IPv6Address string }
}

// network returns the settings that clusters need.
func (e existing) network() (network, error) {
	for _, c := range e.IPAM.Config {
		subnet, err := netip.ParsePrefix(c.Subnet)
		if err != nil || !subnet.Addr().Is4() {
			continue
		}
		n := network{name: e.Name, subnet: subnet.Masked()}
		n.router, _ = netip.ParseAddr(c.Gateway)
		return n, nil
	}
	return network{}, fmt.Errorf("the network %s has no subnet of IPv4", e.Name)
}

// create returns docker's arguments to create it again.
func (e existing) create() []string {
	args := []string{"network", "create", "--driver", e.Driver}
	if e.EnableIPv6 {
		args = append(args, "--ipv6")
	}
	for _, c := range e.IPAM.Config {
		args = append(args, "--subnet", c.Subnet)
		if gateway, _, _ := strings.Cut(c.Gateway, "/"); gateway != "" {
			args = append(args, "--gateway", gateway)
		}
	}
	for _, group := range []struct {
		flag   string
		values map[string]string
	}{{"--opt", e.Options}, {"--label", e.Labels}} {
		for _, name := range slices.Sorted(maps.Keys(group.values)) {
			args = append(args, group.flag, name+"="+group.values[name])
		}
	}
	return append(args, e.Name)
}

// inspectNetwork reads a network.
func inspectNetwork(ctx context.Context, cli docker.CLI, name string) (existing, error) {
	out, err := cli.Run(ctx, "network", "inspect", name)
	if err != nil {
		return existing{}, fmt.Errorf("failed to inspect network %s: %w", name, err)
	}
	var all []existing
	if err := json.Unmarshal([]byte(out), &all); err != nil {
		return existing{}, fmt.Errorf("failed to inspect network %s: reading docker's output: %w", name, err)
	}
	if len(all) != 1 {
		return existing{}, fmt.Errorf("failed to inspect network %s: docker has %d of that name", name, len(all))
	}
	return all[0], nil
}

// pinExisting pins the current addresses of the containers of an existing cluster, and returns
// their network. If that would affect other containers it returns an error instead.
func pinExisting(ctx context.Context, cli docker.CLI, cluster string, progress func(string)) (network, error) {
	if err := finishPinning(ctx, cli, cluster); err != nil {
		return network{}, err
	}
	all, err := machines(ctx, cli, cluster)
	if err != nil {
		return network{}, err
	}
	name, pinned, err := networkOf(all)
	if err != nil {
		return network{}, fmt.Errorf("failed to find the network of cluster %s: %w", cluster, err)
	}
	before, err := inspectNetwork(ctx, cli, name)
	if err != nil {
		return network{}, err
	}
	n, err := before.network()
	if err != nil || pinned {
		return n, err
	}
	others, err := othersOn(ctx, cli, name, all)
	if err != nil {
		return network{}, err
	}
	if len(others) > 0 {
		progress(fmt.Sprintf("addresses are not pinned, because other containers are on the network %s too (%s): nodes that are off at the same time may come back with each other's",
			name, strings.Join(others, ", ")))
		return n, nil
	}
	progress("pinning addresses: recreating the network " + name)
	return n, makeAgain(ctx, cli, cluster, before)
}

// finishPinning finishes what a process began that was killed, for the containers that still exist.
func finishPinning(ctx context.Context, cli docker.CLI, cluster string) error {
	plan, err := pinPlan(ctx, cli, cluster)
	if err != nil || plan == "" {
		return err
	}
	var before existing
	if err := json.Unmarshal([]byte(plan), &before); err != nil {
		return fmt.Errorf("failed to read the original settings of cluster %s's network from the label of the volume %s: %w", cluster, pinVolume(cluster), err)
	}
	all, err := machines(ctx, cli, cluster)
	if err != nil {
		return err
	}
	exists, off := map[string]bool{}, false
	for _, c := range all {
		if _, planned := before.Containers[c.ID]; planned {
			_, on := c.NetworkSettings.Networks[before.Name]
			exists[c.ID], off = true, off || !on
		}
	}
	if !off {
		return forgetPlan(ctx, cli, cluster)
	}
	maps.DeleteFunc(before.Containers, func(id string, _ struct{ Name, IPv4Address, IPv6Address string }) bool { return !exists[id] })
	return makeAgain(ctx, cli, cluster, before)
}

// pinPlan returns the plan that a killed process left; empty if none did.
func pinPlan(ctx context.Context, cli docker.CLI, cluster string) (string, error) {
	plan, err := cli.Run(ctx, "volume", "ls", "--filter", "label="+pinLabel+"="+cluster, "--format", `{{.Label "`+planLabel+`"}}`)
	if err != nil {
		return "", fmt.Errorf("failed to look for an interrupted change of the network of cluster %s: %w", cluster, err)
	}
	return plan, nil
}

func forgetPlan(ctx context.Context, cli docker.CLI, cluster string) error {
	if _, err := cli.Run(ctx, "volume", "rm", "--force", pinVolume(cluster)); err != nil && !docker.Says(err, "no such volume") {
		return fmt.Errorf("failed to remove the volume %s, which has a plan that is done: %w", pinVolume(cluster), err)
	}
	return nil
}

// othersOn returns the containers on a cluster's network that are not the cluster's.
func othersOn(ctx context.Context, cli docker.CLI, network string, all []docker.Container) ([]string, error) {
	mine := map[string]bool{}
	for _, c := range all {
		mine[c.Name] = true
	}
	users, err := cli.Run(ctx, "ps", "--all", "--filter", "network="+network, "--format", "{{.Names}}")
	if err != nil {
		return nil, fmt.Errorf("failed to list the containers on the network %s: %w", network, err)
	}
	return slices.DeleteFunc(strings.Fields(users), func(c string) bool { return mine[c] }), nil
}

// networkOf returns the network of all containers of a cluster, and whether their addresses are
// pinned.
func networkOf(all []docker.Container) (name string, pinned bool, err error) {
	pinned = true
	for _, c := range all {
		names := slices.Collect(maps.Keys(c.NetworkSettings.Networks))
		if len(names) != 1 || name != "" && names[0] != name {
			return "", false, fmt.Errorf("its containers must be on one network, and %s is on %q", c.Name, names)
		}
		name = names[0]
		own := c.NetworkSettings.Networks[name].IPAMConfig
		pinned = pinned && own != nil && own.IPv4Address != ""
	}
	return name, pinned, nil
}

// makeAgain recreates a network, with a fixed address for each of its containers. Even after an
// error they are on a network of the name in the end. If it is killed, see finishPinning.
func makeAgain(ctx context.Context, cli docker.CLI, cluster string, n existing) error {
	plan, err := json.Marshal(n)
	if err == nil {
		_, err = cli.Run(ctx, "volume", "create", "--label", pinLabel+"="+cluster, "--label", planLabel+"="+string(plan), pinVolume(cluster))
	}
	if err != nil {
		return fmt.Errorf("failed to save the settings of the network %s before pinning the addresses on it: %w", n.Name, err)
	}
	var errs []error
	containers := slices.SortedFunc(maps.Values(n.Containers), func(a, b struct{ Name, IPv4Address, IPv6Address string }) int {
		return strings.Compare(a.Name, b.Name)
	})
	ctx = context.WithoutCancel(ctx) // a few seconds; do not stop halfway
	for _, c := range containers {
		if _, err := cli.Run(ctx, "network", "disconnect", n.Name, c.Name); err != nil && !docker.Says(err, "is not connected to") && !noNetwork(err) {
			errs = append(errs, err)
			break
		}
	}
	if len(errs) == 0 {
		if _, err := cli.Run(ctx, "network", "rm", n.Name); err != nil && !noNetwork(err) {
			errs = append(errs, err)
		}
	}
	if _, err := cli.Run(ctx, n.create()...); err != nil && !docker.Says(err, "already exists") {
		errs = append(errs, err)
	}
	connected := true
	for _, c := range containers {
		args := []string{"network", "connect"}
		if address, _, _ := strings.Cut(c.IPv4Address, "/"); address != "" {
			args = append(args, "--ip", address)
		}
		if address, _, _ := strings.Cut(c.IPv6Address, "/"); address != "" {
			args = append(args, "--ip6", address)
		}
		_, err := cli.Run(ctx, append(args, n.Name, c.Name)...)
		if err == nil || docker.Says(err, "already exists in network") {
			continue
		}
		errs = append(errs, err)
		if _, err := cli.Run(ctx, "network", "connect", n.Name, c.Name); err != nil {
			errs, connected = append(errs, err), false
		}
	}
	if connected {
		errs = append(errs, forgetPlan(ctx, cli, cluster))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("failed to pin the addresses on the network %s: %w", n.Name, err)
	}
	return nil
}
