package balancer

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/holdfast-ha/holdfast/clusters"
)

// NGINX returns how to run NGINX as a balancer: its path, its arguments, and the configuration
// to write to configFile. NGINX keeps its files in dir. SIGQUIT stops it gracefully, SIGTERM
// immediately.
//
// If NGINX or its stream module is not installed, the error says what to do.
func NGINX(c Config, configFile, dir string) (path string, args []string, config []byte, err error) {
	path, module, err := findNGINX()
	if err != nil {
		return "", nil, nil, err
	}
	config, err = nginxConfig(c, module, dir)
	if err != nil {
		return "", nil, nil, err
	}
	return path, []string{"-p", dir, "-e", "stderr", "-c", configFile}, config, nil
}

// NGINXInstalled reports what is missing to run NGINX with its stream module, and what to do.
func NGINXInstalled() error {
	_, _, err := findNGINX()
	return err
}

// findNGINX returns the path of NGINX, and that of its stream module unless it is
// built in.
func findNGINX() (path, module string, err error) {
	path, err = exec.LookPath("nginx")
	if err != nil {
		return "", "", fmt.Errorf("failed to find NGINX: %w: install nginx-light and libnginx-mod-stream (names in Debian), or set spec.loadBalancer.kind to %s", err, clusters.BalancerBuiltin)
	}
	said, err := exec.Command(path, "-V").CombinedOutput()
	if err != nil {
		return "", "", fmt.Errorf("failed to ask %s what it was built with: %w: %s", path, err, strings.TrimSpace(string(said)))
	}
	module, found := streamModule(string(said))
	if found && module != "" {
		if _, err := os.Stat(module); err != nil {
			found = false
		}
	}
	if !found {
		return "", "", fmt.Errorf("failed to find the stream module of %s: install libnginx-mod-stream (its name in Debian), or set spec.loadBalancer.kind to %s", path, clusters.BalancerBuiltin)
	}
	return path, module, nil
}

// streamModule reads from the output of "nginx -V" the file of the stream module, empty if it
// is built in.
func streamModule(said string) (module string, found bool) {
	dir := ""
	for word := range strings.FieldsSeq(said) {
		if rest, ok := strings.CutPrefix(word, "--modules-path="); ok {
			dir = rest
		}
	}
	for word := range strings.FieldsSeq(said) {
		switch word {
		case "--with-stream":
			return "", true
		case "--with-stream=dynamic":
			return filepath.Join(dir, "ngx_stream_module.so"), dir != ""
		}
	}
	return "", false
}

// nginxConfig returns the content of nginx.conf for NGINX 1.19.5 or later; module is the
// file of its stream module, empty where that is built in.
func nginxConfig(c Config, module, dir string) ([]byte, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	words := []string{c.Listen, module, dir}
	for _, b := range c.Backends {
		words = append(words, b.Name, b.Address)
	}
	for _, word := range words {
		if strings.ContainsAny(word, " \t\r\n\\\"'#$;{}") {
			return nil, fmt.Errorf("the configuration of NGINX cannot hold %q", word)
		}
	}
	var out strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&out, format+"\n", args...) }
	if module != "" {
		line("load_module %s;", module)
	}
	// One process, which its watcher sees: workers would outlive a killed master, and continue
	// to serve.
	line("daemon off;")
	line("master_process off;")
	line("pid %s;", filepath.Join(dir, "nginx.pid"))
	line("error_log stderr warn;")
	line("events {")
	line("  worker_connections 4096;")
	line("}")
	line("stream {")
	line("  upstream apiservers {")
	h := c.HealthCheck
	passive := fmt.Sprintf("max_fails=%d fail_timeout=%ds", h.Fall, int(h.FailTimeout().Seconds()))
	if h.Disabled {
		passive = "max_fails=0"
	}
	for _, b := range c.Backends {
		line("    server %s %s; # %s", b.Address, passive, b.Name)
	}
	line("  }")
	line("  server {")
	line("    listen %s;", c.Listen)
	line("    proxy_pass apiservers;")
	// A watch may be silent for long.
	line("    proxy_timeout 1h;")
	if h.Disabled {
		line("    proxy_connect_timeout %s;", milliseconds(dialTimeout))
		line("    proxy_next_upstream off;")
	} else {
		line("    proxy_connect_timeout %s;", milliseconds(min(dialTimeout, h.Timeout)))
	}
	line("  }")
	line("}")
	return []byte(out.String()), nil
}
