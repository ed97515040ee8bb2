package balancer

import (
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/holdfast-ha/holdfast/clusters"
	proxy "github.com/holdfast-ha/holdfast/clusters/local/balancer"
)

// bootstrap is the part of the file named by -c that is used: the paths of the two other files,
// and the address of the status page.
type bootstrap struct {
	DynamicResources struct {
		CDS resourceFile `yaml:"cds_config"`
		LDS resourceFile `yaml:"lds_config"`
	} `yaml:"dynamic_resources"`
	Admin struct {
		Address address `yaml:"address"`
	} `yaml:"admin"`
}

type resourceFile struct {
	Source struct {
		Path string `yaml:"path"`
	} `yaml:"path_config_source"`
}

type address struct {
	Socket struct {
		Address string `yaml:"address"`
		Port    int    `yaml:"port_value"`
	} `yaml:"socket_address"`
}

// String is host:port, or empty if none exists.
func (a address) String() string {
	if a.Socket.Address == "" {
		return ""
	}
	return net.JoinHostPort(a.Socket.Address, strconv.Itoa(a.Socket.Port))
}

// check reports whether the address can be dialled or listened on.
func (a address) check() error {
	if a.Socket.Address == "" || a.Socket.Port < 1 || a.Socket.Port > 65535 {
		return fmt.Errorf("socket_address has the address %q and the port %d: want a host and 1 to 65535", a.Socket.Address, a.Socket.Port)
	}
	return nil
}

func readBootstrap(file string) (bootstrap, error) {
	var b bootstrap
	data, err := os.ReadFile(file)
	if err != nil {
		return b, err
	}
	if err := yaml.Unmarshal(data, &b); err != nil {
		return b, fmt.Errorf("%s: %w", file, err)
	}
	if b.DynamicResources.CDS.Source.Path == "" || b.DynamicResources.LDS.Source.Path == "" {
		return b, fmt.Errorf("%s names no files in dynamic_resources: want cds_config and lds_config with a path_config_source", file)
	}
	return b, nil
}

// parseListener returns the address that clients connect to, from a file of listeners; empty if
// the file has none.
func parseListener(data []byte) (string, error) {
	var file struct {
		Resources []struct {
			Address address `yaml:"address"`
		} `yaml:"resources"`
	}
	if err := yaml.Unmarshal(data, &file); err != nil {
		return "", fmt.Errorf("listeners: %w", err)
	}
	switch len(file.Resources) {
	case 0:
		return "", nil
	case 1:
		listen := file.Resources[0].Address
		if err := listen.check(); err != nil {
			return "", fmt.Errorf("listener: %w", err)
		}
		return listen.String(), nil
	}
	return "", fmt.Errorf("there are %d listeners: want one", len(file.Resources))
}

// cluster is a set of API servers and how to check them.
type cluster struct {
	HealthChecks []struct {
		Timeout   duration `yaml:"timeout"`
		Interval  duration `yaml:"interval"`
		Unhealthy int      `yaml:"unhealthy_threshold"`
		Healthy   int      `yaml:"healthy_threshold"`
		HTTP      *struct {
			Path string `yaml:"path"`
		} `yaml:"http_health_check"`
	} `yaml:"health_checks"`
	Assignment struct {
		Endpoints []struct {
			LB []struct {
				Endpoint struct {
					Address address `yaml:"address"`
				} `yaml:"endpoint"`
			} `yaml:"lb_endpoints"`
		} `yaml:"endpoints"`
	} `yaml:"load_assignment"`
}

// duration is written 0.25s or 3s.
type duration time.Duration

func (d *duration) UnmarshalYAML(node *yaml.Node) error {
	parsed, err := time.ParseDuration(node.Value)
	if err != nil || parsed < 0 {
		return fmt.Errorf("line %d: %q is not a duration such as 3s", node.Line, node.Value)
	}
	*d = duration(parsed)
	return nil
}

// parseClusters reads the API servers and their health check from a file of clusters into c.
func parseClusters(data []byte, c *proxy.Config) error {
	var file struct {
		Resources []cluster `yaml:"resources"`
	}
	if err := yaml.Unmarshal(data, &file); err != nil {
		return fmt.Errorf("clusters: %w", err)
	}
	// Without a health check, clients are sent to every API server.
	c.HealthCheck = clusters.HealthCheck{Disabled: true}
	switch len(file.Resources) {
	case 0:
		return nil
	case 1:
	default:
		return fmt.Errorf("there are %d clusters: want one", len(file.Resources))
	}
	for _, group := range file.Resources[0].Assignment.Endpoints {
		for _, e := range group.LB {
			if err := e.Endpoint.Address.check(); err != nil {
				return fmt.Errorf("endpoint: %w", err)
			}
			server := e.Endpoint.Address.String()
			c.Backends = append(c.Backends, proxy.Backend{Name: server, Address: server})
		}
	}
	checks := file.Resources[0].HealthChecks
	if len(checks) == 0 {
		return nil
	}
	check := checks[0]
	c.HealthCheck = clusters.HealthCheck{
		Interval: time.Duration(check.Interval),
		// kind allows a check to take longer than the interval. Our checks run one at a time.
		Timeout: min(time.Duration(check.Timeout), time.Duration(check.Interval)),
		Fall:    check.Unhealthy,
		Rise:    check.Healthy,
	}
	if c.ConnectOnly = check.HTTP == nil; c.ConnectOnly {
		return nil
	}
	if c.CheckPath = check.HTTP.Path; !strings.HasPrefix(c.CheckPath, "/") {
		return fmt.Errorf("http_health_check has the path %q: want one that begins with a slash", c.CheckPath)
	}
	return nil
}

// configure returns the configuration in the files of listeners and of clusters; Listen is
// empty if there is nothing to listen on yet.
func configure(lds, cds []byte) (proxy.Config, error) {
	c := proxy.Config{Algorithm: proxy.RoundRobin}
	var err error
	if c.Listen, err = parseListener(lds); err != nil {
		return proxy.Config{}, err
	}
	if err := parseClusters(cds, &c); err != nil {
		return proxy.Config{}, err
	}
	if c.Listen == "" {
		return c, nil
	}
	return c, c.Validate()
}
