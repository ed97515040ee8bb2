package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

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
			var node corev1.Node
			if err := get(ctx, api, "/api/v1/nodes/"+name, nil, &node); errors.Is(err, errNotFound) {
				continue
			} else if err != nil {
				return err
			}
			if slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
				return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
			}) {
				return fmt.Errorf("node %s is ready", name)
			}
		}
		return nil
	})
}
