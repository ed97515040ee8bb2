package remote

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/holdfast-ha/holdfast/framework"
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

// planned looks for a Plan that is applied to nodes.
func (a *access) planned(ctx context.Context) (string, error) {
	plans, err := a.list(ctx, plansPath)
	if err != nil {
		return "", err
	}
	for _, p := range plans {
		if len(p.Status.Applying) > 0 {
			return fmt.Sprintf("the Plan %s of the system upgrade controller is being applied to %s: wait for it", p.name(), strings.Join(p.Status.Applying, ", ")), nil
		}
	}
	return "", nil
}

// changing reports whether a control plane of Cluster API has machines of an earlier specification, or
// too many or too few.
func (o object) changing() bool {
	if o.Spec.Replicas == nil {
		return false // another controller sets them
	}
	want := *o.Spec.Replicas
	for _, updated := range []*int{o.Status.Updated, o.Status.UpToDate} {
		if updated != nil && *updated != want {
			return true
		}
	}
	return o.Status.Replicas != want
}

// replaced looks for a control plane of Cluster API whose machines are being replaced, and are nodes of
// the inventory: a management cluster also has those of other clusters.
func (a *access) replaced(ctx context.Context) (string, error) {
	for _, path := range controlPlanesPaths {
		all, err := a.list(ctx, path)
		if err != nil {
			return "", err
		}
		for _, c := range all {
			if !c.changing() {
				continue
			}
			own, err := a.ownMachines(ctx, c)
			if err != nil {
				return "", err
			}
			if own {
				return fmt.Sprintf("the control plane %s of Cluster API is being rolled out: it wants %d machines and has %d, not all of them up to date; wait for it", c.name(), *c.Spec.Replicas, c.Status.Replicas), nil
			}
		}
	}
	return "", nil
}

// ownMachines reports whether a machine of a control plane is a node of the inventory.
func (a *access) ownMachines(ctx context.Context, c object) (bool, error) {
	for _, path := range machinesPaths {
		all, err := a.list(ctx, path+"?labelSelector="+url.QueryEscape(machineOwner+"="+c.Name))
		if err != nil {
			return false, err
		}
		for _, m := range all {
			addresses := framework.Names(m.Status.Addresses, func(at corev1.NodeAddress) string { return at.Address })
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
		all, err := a.list(ctx, one.path)
		if err != nil {
			return "", err
		}
		for _, o := range all {
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
