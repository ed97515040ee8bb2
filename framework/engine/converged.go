package engine

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/holdfast-ha/holdfast/framework/workload"
	"github.com/holdfast-ha/holdfast/framework/workload/client"
)

// convergence returns what looks at the application of the traffic (profile
// "application"). That is scaled all the time, so that its Deployments are hardly ever
// all as they are wanted at once: each must have been so once, at any of the looks.
func (r *run) convergence() func(context.Context) error {
	var mu sync.Mutex
	seen := map[string]bool{}
	return func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, requestLimit)
		defer cancel()
		return r.everywhere(ctx, func(ctx context.Context, api *client.API) error {
			var all struct{ Items []deployment }
			if err := get(ctx, api, "/apis/apps/v1/namespaces/"+workload.ApplicationNamespace+"/deployments", nil, &all); err != nil {
				return err
			}
			if len(all.Items) == 0 {
				return errors.New("there is no application: no Deployment is in " + workload.ApplicationNamespace)
			}
			mu.Lock()
			defer mu.Unlock()
			var missing error
			for _, d := range all.Items {
				name, lack := d.Metadata.Name, d.lack()
				if seen[name] = seen[name] || lack == ""; !seen[name] && missing == nil {
					missing = fmt.Errorf("the Deployment %s has not been as it is wanted yet: %s", name, lack)
				}
			}
			return missing
		})
	}
}

// deployment is what of a Deployment tells whether its controller is done.
type deployment struct {
	Metadata struct {
		Name       string
		Generation int64
	}
	Spec   struct{ Replicas int }
	Status struct {
		ObservedGeneration                       int64
		Replicas, UpdatedReplicas, ReadyReplicas int
	}
}

// lack says what is missing; empty where nothing is.
func (d deployment) lack() string {
	s, wanted := d.Status, d.Spec.Replicas
	switch {
	case s.ObservedGeneration < d.Metadata.Generation:
		return fmt.Sprintf("its controller has not looked at generation %d", d.Metadata.Generation)
	case s.Replicas != wanted || s.UpdatedReplicas != wanted || s.ReadyReplicas != wanted:
		return fmt.Sprintf("its controller counts %d pods, %d of them ready, and %d are wanted", s.Replicas, s.ReadyReplicas, wanted)
	}
	return ""
}
