package clusters

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-ha/holdfast/framework"
)

// settingFlags are the flags from which settings come, by symbol. Any of the components may have
// the longest.
var settingFlags = []struct {
	symbol, flag string
	components   []framework.Component
	parse        func(string) (time.Duration, error)
}{
	{"L", "leader-elect-lease-duration", electable, parseDuration},
	{"R", "leader-elect-renew-deadline", electable, parseDuration},
	{"P", "leader-elect-retry-period", electable, parseDuration},
	{"E", "election-timeout", []framework.Component{framework.Etcd}, parseMilliseconds},
	{"N", "node-monitor-period", []framework.Component{framework.ControllerManager}, parseDuration},
	{"G", "node-monitor-grace-period", []framework.Component{framework.ControllerManager}, parseDuration},
}

// Source returns where a component on a node has the value of a flag from, such as a file; empty if
// only the description of the cluster shows it.
type Source func(node string, c framework.Component, flag string) string

// Origins returns where the settings of a cluster come from, by symbol. source may be nil.
func Origins(c *Cluster, s framework.Settings, source Source) map[string]string {
	all := map[string]string{"T": "constant of kube-apiserver", "I": "constant of kube-apiserver"}
	if c.Spec.LoadBalancer.Kind != BalancerNone {
		all["H"] = "health check of the load balancer, as described"
	}
	for _, one := range settingFlags {
		names := framework.Names(one.components, func(c framework.Component) string { return string(c) })
		all[one.symbol] = "default of " + strings.Join(names, " and ")
		for _, n := range slices.Backward(c.Nodes()) {
			for _, component := range one.components {
				value, err := one.parse(n.ExtraArgs[component][one.flag])
				if err == nil && value == s.Symbols()[one.symbol] {
					all[one.symbol] = fmt.Sprintf("%s of %s on %s", one.flag, component, n.Name)
					if source != nil {
						all[one.symbol] += from(source(n.Name, component, one.flag))
					}
				}
			}
		}
	}
	return all
}

// from names a source, if it is known.
func from(source string) string {
	if source == "" {
		return ""
	}
	return ", from " + source
}
