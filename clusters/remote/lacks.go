package remote

import (
	"fmt"

	"github.com/holdfast-ha/holdfast/framework"
)

var (
	_ framework.Explainer = (*plain)(nil)
	_ framework.Explainer = (*node)(nil)
	_ framework.Explainer = (*Observed)(nil)
	_ framework.Explainer = (*Cluster)(nil)
)

// WhyNot implements framework.Explainer: without SSH there is only the API.
func (n *plain) WhyNot(string) string { return n.alone }

// WhyNot implements framework.Explainer.
func (c *Observed) WhyNot(string) string { return c.alone }

// onlyAPI returns why the nodes of a cluster are left alone.
func (a *access) onlyAPI() string {
	if !a.Reachable() {
		return "the inventory has no ssh for its nodes, so holdfast can use only the cluster's API"
	}
	return fmt.Sprintf("the owner's consent does not allow %q, so holdfast can use only the cluster's API", Processes)
}

// WhyNot implements framework.Explainer.
func (n *node) WhyNot(ability string) string {
	switch ability {
	case "PowerSwitch":
		return "the inventory has no power commands for it"
	case "Pauser":
		return "only its hypervisor can pause a machine, and the inventory has no commands for that"
	case "ClockShifter":
		return "its components read the clock of the machine, and holdfast does not set the clocks of machines that it did not create"
	case "DiskFaulter", "DiskDamager", "PowerLoser":
		return "disk faults need a file system of holdfast's own under the data of etcd, and holdfast does not move the data of a cluster that it did not create"
	}
	return ""
}

// WhyNot implements framework.Explainer. What is on no node of the inventory, such as the load
// balancer, is out of reach.
func (c *Cluster) WhyNot(ability string) string {
	switch ability {
	case "Killer", "Stopper", "Starter", "Freezer", "CrashLooper", "ProcessReporter", "HostPresser":
		return "holdfast reaches only the nodes of the inventory, not the load balancer or other machines"
	case "Scaler", "NodeReplacer", "Upgrader", "EtcdUpgrader", "Reconfigurer", "CertificateRotator", "CARotator":
		return "holdfast does not change the nodes of a cluster that it did not create: that is for the distribution's own tools"
	}
	return ""
}
