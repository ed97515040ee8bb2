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

// leaseFlag is kwok's argument for the lease duration of a node, in seconds. Heartbeats renew
// the lease every quarter of that.
const leaseFlag = "node-lease-duration-seconds"

// statusEach is how often a kubelet checks its node's state by default
// (nodeStatusUpdateFrequency), reportEach how often it reports an unchanged one
// (nodeStatusReportFrequency).
const (
	statusEach = 10 * time.Second
	reportEach = 5 * time.Minute
)

// maxBackOff is the longest wait of kubelets before they restart a component, instead of 5
// minutes. A cluster has several faults that kill one, each doubles the wait, and it begins
// when the hold of the component ends. The kubelet's default first wait is 10 s, which is also
// the bound of HA-RC-001: with a shorter one, every kill is judged. Source:
// KubeletConfiguration, crashLoopBackOff, available by default since Kubernetes backOffFrom.
const (
	maxBackOff  = 5 * time.Second
	backOffFrom = "v1.35.0"
)

// userNamespaceFrom is the first version whose kubelet tolerates what is missing in an engine
// in a user namespace, such as /dev/kmsg; older ones need a feature gate. On other engines that
// changes nothing.
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

// nodeLease returns the duration of node leases, or 0 for the kubelet's default. This provider
// has no kwok: kubelets apply the equivalent of its argument, and an error names an argument
// without an equivalent.
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

// kubeletPatch returns the changes of the kubelets' configuration. kubeadm keeps it in the
// cluster, so that nodes that join later have it too.
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
	// A node that was considered lost reports its return with its status. The report frequency
	// of an unchanged status follows from this setting unless it is set.
	patch["nodeStatusUpdateFrequency"] = min(lease, statusEach).String()
	patch["nodeStatusReportFrequency"] = reportEach.String()
	return patch, nil
}
