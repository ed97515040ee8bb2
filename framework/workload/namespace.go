package workload

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/record"
	"github.com/holdfast-ha/holdfast/framework/workload/client"
)

// DefaultNamespace is the namespace of the registers.
const DefaultNamespace = "holdfast-traffic"

// EnsureNamespace creates a namespace through the first entrance that accepts it, unless it
// exists. It tries until ctx ends.
func EnsureNamespace(ctx context.Context, entrances []framework.Entrance, namespace string) error {
	if len(entrances) == 0 {
		return fmt.Errorf("failed to create namespace %s: the cluster has no entrance", namespace)
	}
	var apis []*client.API
	for _, e := range entrances {
		api, err := client.NewAPI(e.Config, client.Options{})
		if err != nil {
			return fmt.Errorf("failed to create namespace %s through %s: %w", namespace, e.Name, err)
		}
		defer api.Close()
		apis = append(apis, api)
	}
	var last error
	for {
		for i, api := range apis {
			if last = ensureNamespace(ctx, api, namespace); last == nil {
				return nil
			}
			last = fmt.Errorf("through %s: %w", entrances[i].Name, last)
		}
		if !client.Pause(ctx, 250*time.Millisecond) {
			return fmt.Errorf("failed to create namespace %s: %w (last answer: %w); see whether the cluster is up", namespace, context.Cause(ctx), last)
		}
	}
}

func ensureNamespace(ctx context.Context, api *client.API, namespace string) error {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	body := mustJSON(map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": metadata{Name: namespace}})
	a := api.Do(ctx, client.Request{Method: http.MethodPost, Path: "/api/v1/namespaces", Body: body})
	if a.Outcome() == record.OK {
		return nil
	}
	if a.Reason() != "AlreadyExists" {
		return errors.New(a.Problem())
	}
	a = api.Do(ctx, client.Request{Method: http.MethodGet, Path: "/api/v1/namespaces/" + namespace})
	var ns struct {
		Status struct{ Phase string }
	}
	if a.Outcome() != record.OK {
		return errors.New(a.Problem())
	}
	if err := json.Unmarshal(a.Body, &ns); err != nil {
		return fmt.Errorf("failed to read namespace %s: %w", namespace, err)
	}
	if ns.Status.Phase == "Terminating" {
		return fmt.Errorf("namespace %s is being deleted", namespace)
	}
	return nil
}

// ProbeNamespace is the namespace of the objects of availability probes.
const ProbeNamespace = "holdfast-probes"

// fresh returns a suffix for names that no earlier run on the cluster has used.
func fresh() string { return strconv.FormatInt(time.Now().UnixNano(), 36) }

func apiServers(entrances []framework.Entrance) []framework.Entrance {
	return slices.DeleteFunc(slices.Clone(entrances), func(e framework.Entrance) bool { return e.Kind != framework.EntranceAPIServer })
}
