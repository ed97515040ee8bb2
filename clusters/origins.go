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

// origins returns where the settings of a cluster come from, by symbol.
func origins(c *Cluster, s framework.Settings) map[string]string {
	all := map[string]string{"T": "constant of kube-apiserver", "I": "constant of kube-apiserver"}
	if c.Spec.LoadBalancer.Kind != BalancerNone {
		all["H"] = "health check of the load balancer, as described"
	}
	for _, one := range settingFlags {
		var names []string
		for _, component := range one.components {
			names = append(names, string(component))
		}
		all[one.symbol] = "default of " + strings.Join(names, " and ")
		for _, n := range slices.Backward(c.Nodes()) {
			for _, component := range one.components {
				value, err := one.parse(n.ExtraArgs[component][one.flag])
				if err == nil && value == s.Symbols()[one.symbol] {
					all[one.symbol] = fmt.Sprintf("%s of %s on %s", one.flag, component, n.Name)
				}
			}
		}
	}
	return all
}
