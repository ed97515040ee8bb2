package kind

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"golang.org/x/mod/semver"

	"github.com/holdfast-ha/holdfast/clusters"
	"github.com/holdfast-ha/holdfast/framework"
)

// leaseFlag is the argument of kwok that says for how long the lease of a node lasts, in
// seconds. Whoever sends a node's heartbeats renews its lease every quarter of that.
const leaseFlag = "node-lease-duration-seconds"

// statusEach is how often a kubelet looks at its node's state unless it is told otherwise
// (nodeStatusUpdateFrequency), reportEach how often it reports one that has not changed
// (nodeStatusReportFrequency).
const (
	statusEach = 10 * time.Second
	reportEach = 5 * time.Minute
)

// maxBackOff is the longest that kubelets wait before they start a component again, rather
// than 5 minutes. Faults that end one are several on a cluster, each doubles the wait, and
// it begins when the component is no longer held down. Source: KubeletConfiguration,
// crashLoopBackOff, which is known by default since Kubernetes backOffFrom.
const (
	maxBackOff  = 10 * time.Second
	backOffFrom = "v1.35.0"
)

// userNamespaceFrom is the first version whose kubelet continues without what an engine in a
// user namespace does not have, such as /dev/kmsg; before, a feature gate has it do so. On
// other engines that changes nothing.
const userNamespaceFrom = "v1.37.0"

// oldest returns the lowest version of Kubernetes on the nodes.
func oldest(spec *clusters.Cluster) string {
	lowest := spec.Spec.KubernetesVersion
	for _, n := range spec.Spec.Nodes {
		if v := n.KubernetesVersion; v != "" && semver.Compare(v, lowest) < 0 {
			lowest = v
		}
	}
	return lowest
}

// nodeLease returns for how long the leases of nodes last, 0 where that is left to the
// kubelet. There is no kwok here: kubelets take the meaning of that argument, and an error
// names one that has none for them.
func nodeLease(spec *clusters.Cluster) (time.Duration, error) {
	args := spec.Spec.ExtraArgs[framework.Kwok]
	for _, flag := range slices.Sorted(maps.Keys(args)) {
		if flag != leaseFlag {
			return 0, fmt.Errorf("the argument --%s of kwok is not supported on kind, whose nodes have kubelets: leave it out", flag)
		}
	}
	text, ok := args[leaseFlag]
	if !ok {
		return 0, nil
	}
	seconds, err := strconv.ParseUint(text, 10, 16)
	if err != nil || seconds == 0 {
		return 0, fmt.Errorf("the argument --%s=%s of kwok cannot be used: want a whole number of seconds above 0", leaseFlag, text)
	}
	return time.Duration(seconds) * time.Second, nil
}

// kubeletPatch returns what is changed in the configuration of kubelets. kubeadm keeps it
// in the cluster, so that nodes that join later have it too.
func kubeletPatch(spec *clusters.Cluster) (map[string]any, error) {
	patch := map[string]any{"kind": "KubeletConfiguration", "failCgroupV1": false}
	version := oldest(spec)
	if semver.Compare(version, userNamespaceFrom) < 0 {
		patch["featureGates"] = map[string]any{"KubeletInUserNamespace": true}
	}
	if semver.Compare(version, backOffFrom) >= 0 {
		patch["crashLoopBackOff"] = map[string]any{"maxContainerRestartPeriod": maxBackOff.String()}
	}
	lease, err := nodeLease(spec)
	if err != nil || lease == 0 {
		return patch, err
	}
	patch["nodeLeaseDurationSeconds"] = int(lease.Seconds())
	// That a node is back after it was taken for lost is told with its state. How often a
	// state that has not changed is told follows from this one unless it is said.
	patch["nodeStatusUpdateFrequency"] = min(lease, statusEach).String()
	patch["nodeStatusReportFrequency"] = reportEach.String()
	return patch, nil
}
