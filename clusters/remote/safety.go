package remote

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/version"

	"github.com/holdfast-ha/holdfast/clusters"
	"github.com/holdfast-ha/holdfast/framework"
)

// remediators are the resources of controllers that replace unresponsive nodes.
var remediators = []string{
	"/apis/cluster.x-k8s.io/v1beta2/machinehealthchecks", "/apis/cluster.x-k8s.io/v1beta1/machinehealthchecks",
	"/apis/machine.openshift.io/v1beta1/machinehealthchecks",
	"/apis/remediation.medik8s.io/v1alpha1/nodehealthchecks",
}

// pausedAnnotations pause them.
var pausedAnnotations = []string{"cluster.x-k8s.io/paused", "machine.openshift.io/paused"}

// object contains the relevant fields of any object.
type object struct {
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		EngineState   string   `json:"engineState"`   // of Litmus
		PauseRequests []string `json:"pauseRequests"` // of Medik8s
		Replicas      *int     `json:"replicas"`      // of a control plane of Cluster API
	} `json:"spec"`
	Status struct {
		Applying   []string                                 `json:"applying"`         // of a Plan: the nodes
		Replicas   int                                      `json:"replicas"`         // of a control plane of Cluster API
		Updated    *int                                     `json:"updatedReplicas"`  // of a control plane of Cluster API, v1beta1
		UpToDate   *int                                     `json:"upToDateReplicas"` // of a control plane of Cluster API, v1beta2
		NodeRef    struct{ Name string }                    `json:"nodeRef"`          // of a machine of Cluster API
		Addresses  []corev1.NodeAddress                     `json:"addresses"`        // of a machine of Cluster API
		Conditions []struct{ Type, Status, Message string } `json:"conditions"`       // of OpenShift
	} `json:"status"`
}

// annotated reports whether it has one of the annotations.
func (o object) annotated(names ...string) bool {
	return slices.ContainsFunc(names, func(name string) bool { _, ok := o.Annotations[name]; return ok })
}

// name returns the namespace and the name.
func (o object) name() string { return strings.TrimPrefix(o.Namespace+"/"+o.Name, "/") }

// safe refuses a cluster with a control-plane node or an API server that is not ready, with a
// cordoned control-plane node, with API servers of different versions, with a rollout that is under
// way, with a remediator that is not paused, and with another active chaos tool.
func (a *access) safe(ctx context.Context) error {
	for _, check := range []func(context.Context) (string, error){a.nodesSafe, a.serversSafe, a.versionsSafe, a.planned, a.replaced, a.progressing, a.remediated, a.inChaos} {
		problem, err := check(ctx)
		if err != nil {
			return err
		}
		if problem != "" {
			return fmt.Errorf("%w: %s", clusters.ErrUnsafe, problem)
		}
	}
	return nil
}

func (a *access) nodesSafe(ctx context.Context) (string, error) {
	nodes, err := a.nodes(ctx)
	if err != nil {
		return "", err
	}
	for _, n := range nodes {
		if !a.has(n.Name) {
			continue
		}
		if n.Spec.Unschedulable {
			return fmt.Sprintf("node %s is cordoned: is a rollout under way?", n.Name), nil
		}
		for _, c := range n.Status.Conditions {
			if c.Type == corev1.NodeReady && c.Status != corev1.ConditionTrue {
				return fmt.Sprintf("node %s is not ready (%s)", n.Name, c.Reason), nil
			}
		}
	}
	return "", nil
}

// serversSafe asks every API server, which also is not ready without its etcd member. One with an
// external etcd is ready with any member; the check of the steady state asks the members.
func (a *access) serversSafe(ctx context.Context) (string, error) {
	for _, e := range a.entrances {
		if e.Kind != framework.EntranceAPIServer {
			continue
		}
		if _, err := get(ctx, e, "/readyz"); err != nil {
			return fmt.Sprintf("the API server on %s is not ready: %v", e.Node, err), nil
		}
	}
	return "", nil
}

func (a *access) versionsSafe(ctx context.Context) (string, error) {
	first, at := "", ""
	for _, e := range a.entrances {
		if e.Kind != framework.EntranceAPIServer {
			continue
		}
		var v version.Info
		if err := getInto(ctx, e, "/version", &v); err != nil {
			return "", fmt.Errorf("failed to read the version of the API server on %s: %w", e.Node, err)
		}
		if first != "" && v.GitVersion != first {
			return fmt.Sprintf("the API server on %s runs %s, the one on %s runs %s: is an upgrade under way?", at, first, e.Node, v.GitVersion), nil
		}
		first, at = v.GitVersion, e.Node
	}
	return "", nil
}

func (a *access) remediated(ctx context.Context) (string, error) {
	for _, path := range remediators {
		all, err := a.list(ctx, path)
		if err != nil {
			return "", err
		}
		for _, o := range all {
			if !o.annotated(pausedAnnotations...) && len(o.Spec.PauseRequests) == 0 {
				return fmt.Sprintf("the health check %s may replace a node that a fault makes unhealthy: pause it (annotation %s, or pauseRequests of Medik8s)", o.name(), pausedAnnotations[0]), nil
			}
		}
	}
	return "", nil
}

func (a *access) inChaos(ctx context.Context) (string, error) {
	engines, err := a.list(ctx, "/apis/litmuschaos.io/v1alpha1/chaosengines")
	if err != nil {
		return "", err
	}
	for _, o := range engines {
		if o.Spec.EngineState == "active" {
			return fmt.Sprintf("the chaos engine %s of Litmus is active", o.name()), nil
		}
	}
	var kinds metav1.APIResourceList
	const mesh = "/apis/chaos-mesh.org/v1alpha1"
	if err := a.read(ctx, mesh, &kinds); err != nil && !notFound(err) {
		return "", err
	}
	for _, kind := range kinds.APIResources {
		if !strings.HasSuffix(kind.Name, "chaos") && kind.Name != "schedules" {
			continue
		}
		all, err := a.list(ctx, mesh+"/"+kind.Name)
		if err != nil {
			return "", err
		}
		for _, o := range all {
			if !o.annotated("experiment.chaos-mesh.org/pause") {
				return fmt.Sprintf("Chaos Mesh has the %s %s: delete or pause it first", kind.Kind, o.name()), nil
			}
		}
	}
	return "", nil
}

// list returns the objects of a path; none if the API does not have their kind.
func (a *access) list(ctx context.Context, path string) ([]object, error) {
	var all struct {
		Items []object `json:"items"`
	}
	if err := a.read(ctx, path, &all); err != nil && !notFound(err) {
		return nil, err
	}
	return all.Items, nil
}
