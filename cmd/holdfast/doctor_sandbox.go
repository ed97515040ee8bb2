package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/holdfast-ha/holdfast/clusters/local"
	"github.com/holdfast-ha/holdfast/clusters/sandbox"
	"github.com/holdfast-ha/holdfast/framework"
)

// checkSandbox starts a sandbox, as a cluster does, and runs this program in it to check it.
// Without TUN the network uses packet sockets alone.
func checkSandbox(ctx context.Context, tun bool) []check {
	c := check{Name: "namespaces", Required: true}
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	cmd, err := sandbox.Command(ctx, "doctor", "--inside")
	if err != nil {
		return []check{c.missing(err.Error(), "repair this first; nothing else can be tried")}
	}
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return []check{c.missing(sandboxProblem(err, stderr.String()), sandboxAdvice())}
	}
	var inside []check
	if err := json.Unmarshal(stdout.Bytes(), &inside); err != nil {
		return []check{c.missing(fmt.Sprintf("the sandbox printed invalid output: %v", err), "report this as a bug")}
	}
	for i := range inside {
		inside[i].Required = inside[i].Required || (inside[i].Name == packetSockets && !tun)
	}
	who := "root"
	if os.Geteuid() != 0 {
		who = fmt.Sprintf("ordinary user %d", os.Geteuid())
	}
	return append([]check{c.ok("user, mount, PID, network, UTS and IPC, made as %s", who)}, inside...)
}

func sandboxProblem(err error, stderr string) string {
	if text := strings.TrimSpace(stderr); text != "" {
		return strings.TrimPrefix(text, "holdfast: ")
	}
	if _, ok := err.(*exec.ExitError); ok {
		return "the sandbox exited: " + err.Error()
	}
	return err.Error()
}

// sandboxAdvice names the settings of this machine that prevent sandboxes.
func sandboxAdvice() string {
	var set []string
	for _, s := range []struct{ file, bad, want string }{
		{"/proc/sys/kernel/unprivileged_userns_clone", "0", "kernel.unprivileged_userns_clone=1"},
		{"/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1", "kernel.apparmor_restrict_unprivileged_userns=0"},
		{"/proc/sys/user/max_user_namespaces", "0", "user.max_user_namespaces=10000"},
		{"/proc/sys/user/max_net_namespaces", "0", "user.max_net_namespaces=10000"},
	} {
		if data, err := os.ReadFile(s.file); err == nil && strings.TrimSpace(string(data)) == s.bad {
			set = append(set, s.want)
		}
	}
	if len(set) > 0 {
		return "as root: sysctl -w " + strings.Join(set, " ")
	}
	return "user namespaces are not restricted by a sysctl; in a container, allow the system calls unshare, clone and mount (seccomp) and an unmasked /proc"
}

// insideChecks tries what the network of a cluster needs. It runs in its own sandbox, which is
// removed with all that the checks created.
func insideChecks() []check {
	return append([]check{checkVeth(), checkPacketSocket()}, checkLimits()...)
}

// checkLimits tries control groups, which put pressure on a single component.
func checkLimits() []check {
	quota, memory := check{Name: "CPU quotas"}, check{Name: "memory limits"}
	if err := local.LimitSupport(framework.Limit{CPU: 20}); err != nil {
		quota = quota.fallback(firstLine(err.Error()), "cpu-pressure uses a load process beside its target instead of a control group; run as root, or in a control group that is delegated to this user")
	} else {
		quota = quota.ok("control groups can be created")
	}
	soft, hard := local.LimitSupport(framework.Limit{Memory: 1 << 30}), local.LimitSupport(framework.Limit{Memory: 1 << 30, Hard: true})
	switch {
	case soft == nil:
		memory = memory.ok("control groups can be created")
	case hard == nil:
		memory = memory.fallback("cgroup v1, which can only kill processes that exceed a limit", "memory-pressure uses a load process unless oom=true is given")
	default:
		memory = memory.fallback(firstLine(hard.Error()), "memory-pressure uses a load process instead")
	}
	return []check{quota, memory}
}

func checkVeth() check {
	c := check{Name: "network devices", Required: true}
	veth := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "hf-doctor-a"}, PeerName: "hf-doctor-b"}
	if err := netlink.LinkAdd(veth); err != nil {
		return c.missing(fmt.Sprintf("make a veth pair: %v", err), "load the kernel's veth module, as root: modprobe veth")
	}
	if err := netlink.LinkSetUp(veth); err != nil {
		return c.missing(fmt.Sprintf("bring up a veth pair: %v", err), "the network namespace does not let its own root use it; look for a security module")
	}
	return c.ok("a veth pair can be made and brought up")
}

const packetSockets = "packet sockets"

func checkPacketSocket() check {
	c := check{Name: packetSockets}
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return c.missing(fmt.Sprintf("open an AF_PACKET socket: %v", err), "needed only where /dev/net/tun cannot be opened; load the kernel's af_packet module")
	}
	defer unix.Close(fd)
	if err := unix.SetsockoptInt(fd, unix.SOL_PACKET, unix.PACKET_VNET_HDR, 1); err != nil {
		return c.fallback(fmt.Sprintf("AF_PACKET without PACKET_VNET_HDR: %v", err), "works without segmentation offload, which is slower")
	}
	return c.ok("AF_PACKET with offload headers")
}
