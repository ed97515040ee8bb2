package record

// ChangePhase is the outcome of a node change.
type ChangePhase string

const (
	NodeAdded   ChangePhase = "added"
	NodeRemoved ChangePhase = "removed"
	// NodeLost is a removal of a node that had already lost its power permanently.
	NodeLost ChangePhase = "lost"
	// NodeChanged is any other change of a node in place; see NodeChange.Action.
	NodeChanged ChangePhase = "changed"
	// NodeUndone is an addition that was interrupted on purpose and undone. Error is the error
	// that it returned.
	NodeUndone ChangePhase = "undone"
	// NodeFailed is a change that failed.
	NodeFailed ChangePhase = "failed"
)

// NodeChange is a control-plane node that joined or left the cluster, or one that was changed,
// such as by an upgrade. The nodes at the start are in Meta; any other node appears first in a
// NodeChange.
type NodeChange struct {
	// Name is what the scenario calls the node; empty if it existed from the start.
	Name  string      `json:"name,omitempty"`
	Phase ChangePhase `json:"phase"`
	Node  Node        `json:"node"` // zero for one that could not be added
	// Called is when the change was requested: nothing is expected of a leaving node from then
	// on. Effect is from when on the change counts: the API server of a new node was ready and
	// its etcd member had a vote, a removed node was gone, a lost one had no power.
	Called Nanos  `json:"called"`
	Effect Nanos  `json:"effect,omitempty"`
	Error  string `json:"error,omitempty"`
	// Missing names the ability missing in the cluster, if that is why the change failed.
	Missing string `json:"missing,omitempty"`
	// Action is the change of a node in place, such as "upgrade"; empty for a node that joined or
	// left. From and To are the versions before and after an upgrade.
	Action string `json:"action,omitempty"`
	From   string `json:"from,omitempty"`
	To     string `json:"to,omitempty"`
	// Interrupted is the number of the step after which a change in place was interrupted on
	// purpose, before it was finished or, if To is From, taken back; 0 if it was not.
	Interrupted int `json:"interrupted,omitempty"`
	// Restarts are the components that a reconfiguration names, and therefore restarts.
	Restarts []string `json:"restarts,omitempty"`
}

// Step is one step of a node change or of a fault that took effect, such as the promotion of an
// etcd member. It is recorded as soon as its proof was seen.
type Step struct {
	// Change is the Name of the NodeChange, or the ID of the fault; empty if a change has none.
	Change string `json:"change,omitempty"`
	// Node is the node that the step changed; empty for none.
	Node string `json:"node,omitempty"`
	// Name says what the step did, such as "promote etcd member".
	Name string `json:"name"`
	// Component is the component that the step restarted in Version; empty for other steps.
	Component string `json:"component,omitempty"`
	Version   string `json:"version,omitempty"`
	Proof     string `json:"proof,omitempty"`
	Began     Nanos  `json:"began"`
	Done      Nanos  `json:"done"`
}

// The steps of adding and of removing a control-plane node, in order; a cluster leaves out those
// that its nodes do not have.
const (
	StepLearner = "add etcd member as a learner"
	StepStart   = "start node"
	StepJoin    = "join with kubeadm" // instead of the steps before and the promotion
	StepPromote = "promote etcd member"
	StepReady   = "await API server"
	StepBalance = "add to the load balancer"

	StepUnbalance = "remove from the load balancer"
	StepStop      = "stop components"
	StepLeader    = "move etcd leadership"
	StepRemove    = "remove etcd member"
	StepDiscard   = "delete node"
)

// The steps that start and stop a load balancer that runs only with two or more nodes. They
// are recorded under the balancer's host.
const (
	StepBalancerStart = "start the load balancer"
	StepBalancerEnd   = "end the load balancer"
)
