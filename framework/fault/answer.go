package fault

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/workload/client"
)

// componentAnswers returns a check of whether a component serves: an API server and a load
// balancer by /readyz through their entrance, etcd by its Status, a node agent by a process that
// it keeps running. It returns nil for a component without a check.
func componentAnswers(c framework.Cluster, node string, component framework.Component) (look, error) {
	switch component {
	case framework.APIServer, framework.LoadBalancer:
		e, ok := entranceOf(c, node, component)
		if !ok {
			return nil, errors.New("the cluster has no entrance to it")
		}
		return func(ctx context.Context) (bool, string) { return ready(ctx, e) }, nil
	case framework.Etcd:
		return func(ctx context.Context) (bool, string) { return etcdAnswers(ctx, c, node) }, nil
	case framework.NodeAgent:
		return agentAnswers(c, node)
	}
	return nil, nil
}

// entranceOf returns the entrance that leads to a component.
func entranceOf(c framework.Cluster, node string, component framework.Component) (framework.Entrance, bool) {
	entrances := c.Entrances()
	i := slices.IndexFunc(entrances, func(e framework.Entrance) bool {
		if component == framework.LoadBalancer {
			return e.Kind == framework.EntranceBalancer
		}
		return e.Kind == framework.EntranceAPIServer && e.Node == node
	})
	if i < 0 {
		return framework.Entrance{}, false
	}
	return entrances[i], true
}

// ready checks whether an entrance answers /readyz with 200.
func ready(ctx context.Context, e framework.Entrance) (bool, string) {
	_, status, err := get(ctx, e, "/readyz")
	switch {
	case err != nil:
		return false, fmt.Sprintf("/readyz through entrance %s: %v", e.Name, err)
	case status != http.StatusOK:
		return false, fmt.Sprintf("/readyz through entrance %s: status %d", e.Name, status)
	}
	return true, fmt.Sprintf("/readyz through entrance %s answers 200", e.Name)
}

// get reads a path through an entrance, as send does.
func get(ctx context.Context, e framework.Entrance, path string) (body []byte, status int, err error) {
	return send(ctx, e, http.MethodGet, path, nil)
}

// send makes a request through an entrance on its own connection: a kept connection may have died
// with the fault, and says nothing about the server.
func send(ctx context.Context, e framework.Entrance, method, path string, object []byte) (body []byte, status int, err error) {
	return sendFor(ctx, tryLimit, e, client.Request{Method: method, Path: path, Body: object})
}

// sendFor is send with another time limit.
func sendFor(ctx context.Context, limit time.Duration, e framework.Entrance, r client.Request) (body []byte, status int, err error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	api, err := client.NewAPI(e.Config, client.Options{NewConnections: true, DialTimeout: dialLimit})
	if err != nil {
		return nil, 0, fmt.Errorf("entrance %s: %w", e.Name, err)
	}
	defer api.Close()
	a := api.Do(ctx, r)
	return a.Body, a.Status, a.Err
}

// dialLimit is short because a packet lost to a cut that has just healed is only retransmitted
// after a second; a new attempt succeeds sooner.
const dialLimit = 500 * time.Millisecond

// all checks whether several looks hold, one after the other.
func all(looks ...look) look {
	return func(ctx context.Context) (bool, string) {
		var words []string
		for _, l := range looks {
			held, seen := l(ctx)
			if !held {
				return false, seen
			}
			words = append(words, seen)
		}
		return true, strings.Join(words, "; ")
	}
}
