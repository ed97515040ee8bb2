package remote

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A rollout restarts components or replaces nodes automatically: a fault beside it hits more than it
// should, and the rollout may end in the middle. An API without the kinds below has no such
// controllers.

// plansPath are the Plans of the system upgrade controller (RKE2, k3s).
const plansPath = "/apis/upgrade.cattle.io/v1/plans"

// controlPlanesPaths are the control planes of Cluster API, and machinesPaths their machines.
var (
	controlPlanesPaths = []string{
		"/apis/controlplane.cluster.x-k8s.io/v1beta2/kubeadmcontrolplanes", "/apis/controlplane.cluster.x-k8s.io/v1beta1/kubeadmcontrolplanes",
		"/apis/controlplane.cluster.x-k8s.io/v1beta2/rke2controlplanes", "/apis/controlplane.cluster.x-k8s.io/v1beta1/rke2controlplanes",
	}
	machinesPaths = []string{"/apis/cluster.x-k8s.io/v1beta2/machines", "/apis/cluster.x-k8s.io/v1beta1/machines"}
)

// machineOwner is the label of a Machine with the name of its control plane.
const machineOwner = "cluster.x-k8s.io/control-plane-name"

// The version of OpenShift, and its operators, of which these roll out static pods and nodes.
const (
	clusterVersionPath   = "/apis/config.openshift.io/v1/clusterversions"
	clusterOperatorsPath = "/apis/config.openshift.io/v1/clusteroperators"
)

var rollingOperators = []string{"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "machine-config"}

// rolling returns the rollout that is under way; empty without one.
func (a *access) rolling(ctx context.Context) (string, error) {
	for _, check := range []func(context.Context) (string, error){a.planned, a.replaced, a.progressing} {
		if problem, err := check(ctx); err != nil || problem != "" {
			return problem, err
		}
	}
	return "", nil
}

// planned looks for a Plan that is applied to nodes.
func (a *access) planned(ctx context.Context) (string, error) {
	var plans struct {
		Items []struct {
			metav1.ObjectMeta `json:"metadata"`
			Status            struct {
				Applying []string `json:"applying"`
			} `json:"status"`
		} `json:"items"`
	}
	if err := a.listInto(ctx, plansPath, &plans); err != nil {
		return "", err
	}
	for _, p := range plans.Items {
		if len(p.Status.Applying) > 0 {
			return fmt.Sprintf("the Plan %s of the system upgrade controller is being applied to %s: wait for it", nameOf(p.ObjectMeta), strings.Join(p.Status.Applying, ", ")), nil
		}
	}
	return "", nil
}

// controlPlane is a control plane of Cluster API.
type controlPlane struct {
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		Replicas *int `json:"replicas"`
	} `json:"spec"`
	Status struct {
		Replicas int  `json:"replicas"`
		Updated  *int `json:"updatedReplicas"`  // v1beta1
		UpToDate *int `json:"upToDateReplicas"` // v1beta2
	} `json:"status"`
}

// changing reports whether it has machines of an earlier specification, or too many or too few.
func (c controlPlane) changing() bool {
	if c.Spec.Replicas == nil {
		return false // another controller sets them
	}
	want := *c.Spec.Replicas
	for _, updated := range []*int{c.Status.Updated, c.Status.UpToDate} {
		if updated != nil && *updated != want {
			return true
		}
	}
	return c.Status.Replicas != want
}

// replaced looks for a control plane of Cluster API whose machines are being replaced, and are nodes of
// the inventory: a management cluster also has those of other clusters.
func (a *access) replaced(ctx context.Context) (string, error) {
	for _, path := range controlPlanesPaths {
		var all struct {
			Items []controlPlane `json:"items"`
		}
		if err := a.listInto(ctx, path, &all); err != nil {
			return "", err
		}
		for _, c := range all.Items {
			if !c.changing() {
				continue
			}
			own, err := a.ownMachines(ctx, c)
			if err != nil {
				return "", err
			}
			if own {
				return fmt.Sprintf("the control plane %s of Cluster API is being rolled out: it wants %d machines and has %d, not all of them up to date; wait for it", nameOf(c.ObjectMeta), *c.Spec.Replicas, c.Status.Replicas), nil
			}
		}
	}
	return "", nil
}

// ownMachines reports whether a machine of a control plane is a node of the inventory.
func (a *access) ownMachines(ctx context.Context, c controlPlane) (bool, error) {
	for _, path := range machinesPaths {
		var all struct {
			Items []struct {
				metav1.ObjectMeta `json:"metadata"`
				Status            struct {
					NodeRef struct {
						Name string `json:"name"`
					} `json:"nodeRef"`
					Addresses []struct {
						Address string `json:"address"`
					} `json:"addresses"`
				} `json:"status"`
			} `json:"items"`
		}
		if err := a.listInto(ctx, path+"?labelSelector="+url.QueryEscape(machineOwner+"="+c.Name), &all); err != nil {
			return false, err
		}
		for _, m := range all.Items {
			var addresses []string
			for _, at := range m.Status.Addresses {
				addresses = append(addresses, at.Address)
			}
			if m.Namespace == c.Namespace && m.Labels[machineOwner] == c.Name && a.has(a.named(m.Status.NodeRef.Name, addresses, nil)) {
				return true, nil
			}
		}
	}
	return false, nil
}

// progressing looks for an update of OpenShift, and for an operator that rolls out what runs on
// control-plane nodes.
func (a *access) progressing(ctx context.Context) (string, error) {
	for _, one := range []struct{ path, kind string }{{clusterVersionPath, "the version of OpenShift"}, {clusterOperatorsPath, "the operator"}} {
		var all struct {
			Items []struct {
				metav1.ObjectMeta `json:"metadata"`
				Status            struct {
					Conditions []struct {
						Type, Status, Message string
					} `json:"conditions"`
				} `json:"status"`
			} `json:"items"`
		}
		if err := a.listInto(ctx, one.path, &all); err != nil {
			return "", err
		}
		for _, o := range all.Items {
			if one.path == clusterOperatorsPath && !slices.Contains(rollingOperators, o.Name) {
				continue
			}
			for _, c := range o.Status.Conditions {
				if c.Type == "Progressing" && c.Status == "True" {
					return fmt.Sprintf("%s (%s) is progressing: %s; wait for it", one.kind, o.Name, c.Message), nil
				}
			}
		}
	}
	return "", nil
}

// nameOf returns the namespace and the name of an object.
func nameOf(o metav1.ObjectMeta) string { return strings.TrimPrefix(o.Namespace+"/"+o.Name, "/") }

// listInto reads the objects of a path; none if the API does not have their kind.
func (a *access) listInto(ctx context.Context, path string, into any) error {
	if err := a.read(ctx, path, into); err != nil && !notFound(err) {
		return err
	}
	return nil
}
