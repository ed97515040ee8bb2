package engine

import (
	"context"
	"errors"
	"fmt"

	"github.com/holdfast-ha/holdfast/framework/workload/client"
)

// notReady checks whether the nodes that a fault hit are not ready, as far as they are
// Nodes of the API.
func (r *run) notReady(ctx context.Context, id string) error {
	i, err := r.injection(id)
	if err != nil {
		return err
	}
	return r.everywhere(ctx, func(ctx context.Context, api *client.API) error {
		for _, name := range i.nodes() {
			var node struct {
				Status struct {
					Conditions []struct{ Type, Status string }
				}
			}
			if err := get(ctx, api, "/api/v1/nodes/"+name, nil, &node); errors.Is(err, errNotFound) {
				continue
			} else if err != nil {
				return err
			}
			for _, c := range node.Status.Conditions {
				if c.Type == "Ready" && c.Status == "True" {
					return fmt.Errorf("node %s is ready", name)
				}
			}
		}
		return nil
	})
}
