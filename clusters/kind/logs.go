package kind

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"regexp"
	"strings"
	"time"

	"github.com/holdfast-ha/holdfast/clusters/agent"
	"github.com/holdfast-ha/holdfast/clusters/keeper"
	"github.com/holdfast-ha/holdfast/clusters/kind/internal/docker"
	"github.com/holdfast-ha/holdfast/framework"
)

// Logs of a kept cluster are read in place: on the node, those of services from the journal and
// those of containers from podLogs; the balancer's from the engine.

// podLogs has POD/CONTAINER/N.log for the Nth start of a container.
const podLogs = "/var/log/pods"

// noLog is the exit code of logScript if the log does not exist.
const noLog = 44

// units are the services that have logs, by their names on the command line.
var units = map[string]string{
	string(framework.NodeAgent): "kubelet", "kubelet": "kubelet",
	string(framework.ContainerRuntime): "containerd", "agent": agent.UnitName,
}

// logName matches valid names of containers, which are safe in a script.
var logName = regexp.MustCompile(`^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$`)

// logScript writes a component's log in a node. Following stops when its standard input closes:
// otherwise it would continue after docker's client has exited.
func logScript(component string, follow bool) string {
	if unit := units[component]; unit != "" {
		read := "journalctl --quiet --no-pager --output cat --unit " + unit
		if !follow {
			return read
		}
		return read + " --follow --lines all & cat >/dev/null; kill 0"
	}
	files, strip := podLogs+"/*/"+component+"/*.log", "sed -uE 's/^[^ ]+ (stdout|stderr) [FP] //'"
	if component == "audit" {
		files, strip = strings.TrimSuffix(nodeAuditLog, ".log")+"*.log", "cat"
	}
	find := "ls -tr " + files + " 2>/dev/null"
	script := "[ -n \"$(" + find + ")\" ] || exit " + fmt.Sprint(noLog) + "\n"
	if !follow {
		return script + "cat $(" + find + ") | " + strip
	}
	// A restarted container logs to another file.
	return script + `follow() {
	seen=" "
	while :; do
		new=
		for f in $(` + find + `); do
			case "$seen" in *" $f "*) ;; *) new="$new $f"; seen="$seen$f " ;; esac
		done
		[ -z "$new" ] || tail -q -n +1 -F $new 2>/dev/null &
		sleep 1
	done
}
follow | ` + strip + ` & cat >/dev/null; kill 0`
}

// Log implements keeper.Access.
func (Provider) Log(ctx context.Context, h *keeper.Handle, host, component string, follow bool, out io.Writer) error {
	cli, err := engineOf(h)
	if err != nil {
		return err
	}
	role, err := roleOf(ctx, cli, h.Name, host)
	if err != nil {
		return err
	}
	none := func(there ...string) error {
		return fmt.Errorf("%w: cluster %s has no log of %s on %s; available:\n  %s", keeper.ErrNoLog, h.Name, component, host, strings.Join(there, "\n  "))
	}
	if role == balancerRole {
		if component != string(framework.LoadBalancer) {
			return none(string(framework.LoadBalancer))
		}
		args := []string{"logs"}
		if follow {
			args = append(args, "--follow")
		}
		return stream(ctx, cli, out, append(args, host)...)
	}
	err = exitError(noLog)
	if logName.MatchString(component) {
		err = stream(ctx, cli, out, "exec", "--interactive", host, "sh", "-c", logScript(component, follow))
	}
	if !errors.Is(err, exitError(noLog)) {
		return err
	}
	names, err := cli.Run(ctx, "exec", host, "sh", "-c", "for d in "+podLogs+"/*/*/; do basename $d; done | sort -u")
	if err != nil {
		return fmt.Errorf("failed to list the logs on %s: %w", host, err)
	}
	there := append(strings.Fields(names), "kubelet", "containerd", "agent")
	if role == controlPlaneRole {
		there = append(there, "audit")
	}
	return none(there...)
}

// roleOf returns the role of a machine of the cluster.
func roleOf(ctx context.Context, cli docker.CLI, cluster, host string) (string, error) {
	all, err := machines(ctx, cli, cluster)
	if err != nil {
		return "", err
	}
	var names []string
	for _, c := range all {
		if c.Name == host {
			return c.Config.Labels[roleLabel], nil
		}
		names = append(names, c.Name)
	}
	return "", fmt.Errorf("%w: cluster %s has no host %q; it has %s", keeper.ErrNoHost, cluster, host, strings.Join(names, ", "))
}

// exitError is the exit of a program with this code.
type exitError int

func (e exitError) Error() string { return fmt.Sprintf("exit code %d", int(e)) }

// stream runs docker until it exits or ctx ends, with all its output going to out. Its standard
// input closes with ctx.
func stream(ctx context.Context, cli docker.CLI, out io.Writer, args ...string) error {
	cmd := cli.Start(ctx, args...)
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = out, &said
	if args[0] == "logs" {
		cmd.Stderr = out // what the container writes to standard error
	} else {
		cmd.Cancel = in.Close
	}
	cmd.WaitDelay = 5 * time.Second
	err = cmd.Run()
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil:
		return nil
	case errors.As(err, &exit) && exit.ExitCode() == noLog:
		return exitError(noLog)
	case err != nil:
		return fmt.Errorf("docker %s: %w: %s", args[0], err, strings.TrimSpace(said.String()))
	}
	return nil
}
