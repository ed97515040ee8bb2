package balancer

import (
	"fmt"
	"os/exec"
	"strings"
	"time"

	"github.com/holdfast-ha/holdfast/clusters"
)

// HAProxy returns how to run HAProxy as a balancer with the same behaviour: its path, its
// arguments, and the configuration to write to configFile. statsSocket is the path of its stats
// socket; a unix socket's path has at most 107 bytes. SIGUSR1 stops it gracefully, SIGTERM
// immediately.
//
// If HAProxy is not installed, the error says what to do.
func HAProxy(c Config, configFile, statsSocket string) (path string, args []string, config []byte, err error) {
	if err := HAProxyInstalled(); err != nil {
		return "", nil, nil, err
	}
	if path, err = exec.LookPath("haproxy"); err != nil {
		return "", nil, nil, err
	}
	config, err = HAProxyConfig(c, statsSocket)
	if err != nil {
		return "", nil, nil, err
	}
	return path, []string{"-db", "-f", configFile}, config, nil
}

// HAProxyInstalled reports what is missing to run HAProxy, and what to do.
func HAProxyInstalled() error {
	if _, err := exec.LookPath("haproxy"); err != nil {
		return fmt.Errorf("failed to find HAProxy: %w: install haproxy (its package has that name on most systems), or set spec.loadBalancer.kind to %s", err, clusters.BalancerBuiltin)
	}
	return nil
}

// HAProxyConfig returns the content of haproxy.cfg for HAProxy 2.2 or later.
func HAProxyConfig(c Config, statsSocket string) ([]byte, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	if len(statsSocket) > 107 {
		return nil, fmt.Errorf("the path of HAProxy's stats socket is longer than the 107 bytes that a socket's path may have: %s", statsSocket)
	}
	// White space and quotes would end a word of the configuration.
	words := []string{c.Listen, statsSocket}
	for _, b := range c.Backends {
		words = append(words, b.Name, b.Address)
	}
	for _, word := range words {
		if strings.ContainsAny(word, " \t\r\n\\\"'#$;") {
			return nil, fmt.Errorf("HAProxy's configuration cannot hold %q", word)
		}
	}
	var out strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&out, format+"\n", args...) }
	line("global")
	line("  maxconn 4096")
	if statsSocket != "" {
		line("  stats socket %s mode 600 level admin", statsSocket)
	}
	line("")
	line("defaults")
	line("  mode tcp")
	line("  maxconn 4000")
	// A watch may be silent for long; the checks detect dead servers.
	line("  timeout client 1h")
	line("  timeout server 1h")
	h := c.HealthCheck
	if h.Disabled {
		line("  timeout connect %s", milliseconds(dialTimeout))
		line("  retries 0")
	} else {
		line("  timeout connect %s", milliseconds(min(dialTimeout, h.Timeout)))
		line("  timeout check %s", milliseconds(h.Timeout))
		line("  retries 2")
		line("  option redispatch 1")
	}
	line("")
	line("frontend apiservers")
	line("  bind %s", c.Listen)
	line("  default_backend apiservers")
	line("")
	line("backend apiservers")
	line("  balance roundrobin")
	if !h.Disabled {
		line("  option httpchk GET /readyz")
		line("  http-check expect status 200")
	}
	for _, b := range c.Backends {
		line("  server %s %s%s", b.Name, b.Address, checkWords(h))
	}
	return []byte(out.String()), nil
}

// checkWords are the words of a server line that enable checks.
func checkWords(h clusters.HealthCheck) string {
	if h.Disabled {
		return ""
	}
	return fmt.Sprintf(" check check-ssl verify none inter %s fall %d rise %d on-marked-down shutdown-sessions",
		milliseconds(h.Interval), h.Fall, h.Rise)
}

func milliseconds(d time.Duration) string { return fmt.Sprintf("%dms", max(d.Milliseconds(), 1)) }
