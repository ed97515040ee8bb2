package workload

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"sync"

	"k8s.io/client-go/rest"

	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/record"
	"github.com/holdfast-ha/holdfast/framework/workload/client"
)

// Versions asks each API server, directly, for its version (/version), and each
// controller manager and scheduler whose node tells where it serves (the metric
// kubernetes_build_info). The operations have the purpose "version", the component as
// their key and the version as their value.
func Versions(ctx context.Context, c framework.Cluster, w *record.Writer) error {
	var all sync.WaitGroup
	ask := func(node string, component framework.Component, config *rest.Config, path string, read func([]byte) (string, error)) error {
		api, err := client.NewAPI(config, client.Options{NewConnections: true})
		if err != nil {
			return fmt.Errorf("version of %s on %s: %w", component, node, err)
		}
		all.Go(func() {
			defer api.Close()
			ctx, cancel := context.WithTimeout(ctx, stepTimeout)
			defer cancel()
			op := record.Op{Client: "versions", Entrance: node, API: "kubernetes", Type: record.OpGet, Key: string(component), Purpose: "version", Call: w.Now()}
			a := api.Do(ctx, client.Request{Method: http.MethodGet, Path: path})
			op.Return, op.Outcome, op.Error = w.Now(), a.Outcome(), a.Problem()
			if op.Outcome == record.OK {
				version, err := read(a.Body)
				if op.Value, op.Found = version, err == nil; err != nil {
					op.Outcome, op.Error = record.Unknown, err.Error()
				}
			}
			_ = w.Append(record.KindOp, op)
		})
		return nil
	}
	defer all.Wait()
	for _, n := range c.Nodes() {
		i := slices.IndexFunc(c.Entrances(), func(e framework.Entrance) bool { return e.Node == n.Name() })
		if i < 0 {
			continue
		}
		config := c.Entrances()[i].Config
		if err := ask(n.Name(), framework.APIServer, config, "/version", GitVersion); err != nil {
			return err
		}
		lister, ok := n.(framework.EndpointLister)
		if !ok {
			continue
		}
		for _, component := range []framework.Component{framework.ControllerManager, framework.Scheduler} {
			if !slices.Contains(n.Components(), component) {
				continue
			}
			endpoints, err := lister.ServingEndpoints(component)
			if err != nil || len(endpoints) == 0 {
				continue // what the cluster says of itself has to do
			}
			// An administrator may read metrics, of which the health check of
			// the endpoint needs nothing.
			own := rest.CopyConfig(config)
			own.Host, own.Dial = "https://"+endpoints[0].Address, endpoints[0].Dial
			if err := ask(n.Name(), component, own, "/metrics", BuildInfo); err != nil {
				return err
			}
		}
	}
	all.Wait()
	return w.Err()
}

// GitVersion returns the version that the answer to /version holds.
func GitVersion(body []byte) (string, error) {
	var v struct{ GitVersion string }
	if err := json.Unmarshal(body, &v); err != nil || v.GitVersion == "" {
		return "", fmt.Errorf("the answer holds no gitVersion: %s", client.Shorten(string(body)))
	}
	return v.GitVersion, nil
}

// buildInfoVersion finds the version in the metrics of a component
// (k8s.io/component-base/metrics).
var buildInfoVersion = regexp.MustCompile(`(?m)^kubernetes_build_info\{[^}]*\bgit_version="([^"]+)"`)

// BuildInfo returns the version that the metrics of a component hold.
func BuildInfo(body []byte) (string, error) {
	found := buildInfoVersion.FindSubmatch(body)
	if found == nil {
		return "", fmt.Errorf("the metrics hold no kubernetes_build_info")
	}
	return string(found[1]), nil
}
