package record

import (
	"fmt"
	"strconv"
	"time"
)

// ObjectKind is the kind of an Object.
type ObjectKind string

const (
	ObjectDeployment ObjectKind = "Deployment"
	ObjectPod        ObjectKind = "Pod"
	ObjectSlice      ObjectKind = "EndpointSlice"
	ObjectNode       ObjectKind = "Node"
	// ObjectHeartbeat is the Lease with which a node shows that it is alive.
	ObjectHeartbeat ObjectKind = "Lease"
)

// Object is one state of an object that the control plane works on: of the application that the
// traffic runs, of a node, of a node's heartbeat. A watch or a list showed it when the entry was
// appended; only the first sighting of each version, through whichever entrance, is recorded.
type Object struct {
	Kind     ObjectKind `json:"kind"`
	Name     string     `json:"name"`
	UID      string     `json:"uid"`
	Revision string     `json:"revision"` // of the deletion where the object is gone
	Via      string     `json:"via"`      // entrance
	// Gone reports that the object no longer exists; the rest is its last state.
	Gone bool `json:"gone,omitempty"`
	// Part is the part of the application that the object belongs to, which is the name of its
	// Deployment; empty for bare pods and nodes.
	Part string `json:"part,omitempty"`

	// One of these is set, by Kind.
	Deployment *DeploymentState `json:"deployment,omitempty"`
	Pod        *PodState        `json:"pod,omitempty"`
	Slice      *SliceState      `json:"slice,omitempty"`
	Node       *NodeState       `json:"node,omitempty"`
	Heartbeat  *HeartbeatState  `json:"heartbeat,omitempty"`
}

// Number returns a resourceVersion, or a revision of etcd, as a number; 0 if it is not one.
func Number(revision string) uint64 {
	n, err := strconv.ParseUint(revision, 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// check returns an error if the state that belongs to the object's kind is not set: judges
// rely on it.
func (o Object) check() error {
	if !o.hasState() {
		return fmt.Errorf("the %s %q has no state", o.Kind, o.Name)
	}
	return nil
}

func (o Object) hasState() bool {
	switch o.Kind {
	case ObjectDeployment:
		return o.Deployment != nil
	case ObjectPod:
		return o.Pod != nil
	case ObjectSlice:
		return o.Slice != nil
	case ObjectNode:
		return o.Node != nil
	case ObjectHeartbeat:
		return o.Heartbeat != nil
	}
	return true
}

// DeploymentState is a Deployment's spec and the status that its controller reports.
type DeploymentState struct {
	Wanted     int   `json:"wanted"` // spec.replicas
	Generation int64 `json:"generation"`
	Observed   int64 `json:"observed"` // status.observedGeneration
	Replicas   int   `json:"replicas"`
	Updated    int   `json:"updated"`
	Ready      int   `json:"ready"`
	// Served reports whether a Service with the Deployment's name selects its pods.
	Served bool `json:"served,omitempty"`
}

// PodState is the node and the state of a pod.
type PodState struct {
	// Controller is the kind and name of the owner that controls the pod, such as
	// "ReplicaSet/web-5d4"; empty if it has none.
	Controller string `json:"controller,omitempty"`
	Node       string `json:"node,omitempty"`
	Phase      string `json:"phase,omitempty"`
	Ready      bool   `json:"ready,omitempty"`
	Deleting   bool   `json:"deleting,omitempty"` // it has a deletion time
	Restarts   int    `json:"restarts,omitempty"` // of all its containers
}

// SliceState is what an EndpointSlice lists.
type SliceState struct {
	Ready []string `json:"ready"` // UIDs of the pods that it lists as ready, sorted
}

// NodeState is the state of a node.
type NodeState struct {
	Ready string `json:"ready"` // status of its condition Ready: True, False or Unknown
	// Open means that it accepts ordinary pods: it is neither cordoned nor tainted, apart from
	// taints for its health.
	Open bool `json:"open,omitempty"`
	// Tainted means that it has a taint for its health, with which the scheduler places no pod there:
	// the active controller manager removes it some time after the node is ready.
	Tainted bool `json:"tainted,omitempty"`
}

// HeartbeatState is a node's report that it is alive.
type HeartbeatState struct {
	Renewed time.Time `json:"renewed,omitzero"` // by the node's clock
}
