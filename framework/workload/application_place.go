package workload

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/record"
	"github.com/holdfast-ha/holdfast/framework/workload/client"
)

// errNoPlace is the error of a cluster whose nodes accept no pods.
var errNoPlace = errors.New("the cluster has no node that accepts pods")

// acceptsPods reports whether a node accepts ordinary pods, ready or not.
func acceptsPods(n corev1.NodeSpec) bool {
	return !n.Unschedulable && !slices.ContainsFunc(n.Taints, func(t corev1.Taint) bool {
		return t.Effect != corev1.TaintEffectPreferNoSchedule && !strings.HasPrefix(t.Key, healthTaints)
	})
}

// healthTaints is the prefix of taints that say that a node is not healthy.
const healthTaints = "node.kubernetes.io/"

// unhealthy reports whether a node has a taint for its health, with which it accepts no new pods.
func unhealthy(n corev1.NodeSpec) bool {
	return slices.ContainsFunc(n.Taints, func(t corev1.Taint) bool {
		return t.Effect != corev1.TaintEffectPreferNoSchedule && strings.HasPrefix(t.Key, healthTaints)
	})
}

// awaitPlace waits for a node that accepts pods, ready or not, and returns errNoPlace if none
// exists: a control plane without workers is not broken. If it cannot list nodes it returns nil,
// and the deployment shows what is wrong.
func (p *application) awaitPlace(ctx context.Context, e framework.Entrance) error {
	api, err := client.NewAPI(e.Config, client.Options{})
	if err != nil {
		return fmt.Errorf("failed to look for nodes through %s: %w", e.Name, err)
	}
	defer api.Close()
	ctx, cancel := context.WithTimeout(ctx, p.settings.StartLimit/4)
	defer cancel()
	answered := false
	if tryUntil(ctx, func() bool {
		var nodes corev1.NodeList
		a := api.Do(ctx, client.Request{Method: http.MethodGet, Path: "/api/v1/nodes"})
		if a.Outcome() != record.OK || json.Unmarshal(a.Body, &nodes) != nil {
			return false
		}
		answered = true
		return slices.ContainsFunc(nodes.Items, func(n corev1.Node) bool { return acceptsPods(n.Spec) })
	}) || !answered {
		return nil
	}
	return errNoPlace
}
