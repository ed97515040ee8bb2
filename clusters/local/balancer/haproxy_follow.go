package balancer

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-ha/holdfast/clusters/internal/await"
)

// HAProxyFollow changes the backends of a running HAProxy with HAProxyConfig to those of c,
// through its stats socket, while connections to the others continue. Its file still holds the
// configuration for its next start. HAProxy 2.5 or later supports that
// (https://docs.haproxy.org/2.6/management.html#9.3).
func HAProxyFollow(ctx context.Context, statsSocket string, c Config) error {
	if _, err := HAProxyConfig(c, statsSocket); err != nil {
		return err // a word could end a command as well
	}
	now, err := HAProxyBackends(ctx, statsSocket)
	if err != nil {
		return err
	}
	var has []string
	for _, b := range now {
		has = append(has, b.Name)
		if !slices.ContainsFunc(c.Backends, func(want Backend) bool { return want.Name == b.Name }) {
			if err := haproxyRemove(ctx, statsSocket, b.Name); err != nil {
				return err
			}
		}
	}
	for _, b := range c.Backends {
		var commands []string
		if !slices.Contains(has, b.Name) {
			commands = append(commands, fmt.Sprintf("add server apiservers/%s %s%s", b.Name, b.Address, checkWords(c.HealthCheck)))
		}
		// A change that was interrupted may have left a known server disabled.
		if !c.HealthCheck.Disabled {
			commands = append(commands, "enable health apiservers/"+b.Name)
		}
		for _, command := range append(commands, "enable server apiservers/"+b.Name) {
			if err := haproxyTell(ctx, statsSocket, command, "New server registered."); err != nil {
				return err
			}
		}
	}
	return nil
}

// haproxyRemove removes a server once its sessions have ended.
func haproxyRemove(ctx context.Context, statsSocket, name string) error {
	for _, command := range []string{"disable server apiservers/", "shutdown sessions server apiservers/"} {
		if err := haproxyTell(ctx, statsSocket, command+name); err != nil {
			return err
		}
	}
	return await.Until(ctx, 20*time.Millisecond, func(ctx context.Context) error {
		return haproxyTell(ctx, statsSocket, "del server apiservers/"+name, "Server deleted.")
	})
}

// haproxyTell sends a command whose answer must be empty or harmless.
func haproxyTell(ctx context.Context, statsSocket, command string, fine ...string) error {
	answer, err := haproxyAsk(ctx, statsSocket, command)
	if err != nil {
		return err
	}
	if said := strings.TrimSpace(answer); said != "" && !slices.Contains(fine, said) {
		return fmt.Errorf("HAProxy refuses %q: %s", command, said)
	}
	return nil
}
