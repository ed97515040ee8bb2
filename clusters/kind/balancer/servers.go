package balancer

import (
	"errors"
	"fmt"
	"net"
	"strconv"

	"go.yaml.in/yaml/v3"
)

// ClustersFile is the file of clusters inside the balancer's container.
const ClustersFile = "/home/envoy/cds.yaml"

// WithServers returns a file of clusters, as kind writes it, with other API servers: host:port
// each. The rest of the file is unchanged.
func WithServers(clusters []byte, servers []string) ([]byte, error) {
	var file map[string]any
	if err := yaml.Unmarshal(clusters, &file); err != nil {
		return nil, fmt.Errorf("clusters: %w", err)
	}
	var endpoints []any
	for _, s := range servers {
		host, text, err := net.SplitHostPort(s)
		if err != nil {
			return nil, err
		}
		port, err := strconv.Atoi(text)
		if err != nil {
			return nil, fmt.Errorf("%s: the port is not a number", s)
		}
		endpoints = append(endpoints, map[string]any{"endpoint": map[string]any{
			"address": map[string]any{"socket_address": map[string]any{"address": host, "port_value": port}}}})
	}
	all, _ := file["resources"].([]any)
	if len(all) != 1 {
		return nil, fmt.Errorf("there are %d clusters: want one", len(all))
	}
	cluster, _ := all[0].(map[string]any)
	assignment, _ := cluster["load_assignment"].(map[string]any)
	if assignment == nil {
		return nil, errors.New("the cluster has no load_assignment")
	}
	assignment["endpoints"] = []any{map[string]any{"lb_endpoints": endpoints}}
	return yaml.Marshal(file)
}
