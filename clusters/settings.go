package clusters

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/yamlfile"
)

// Constants of the API server that no flag changes.
const (
	// EndpointTTL is how long an API server's address stays listed after the
	// last renewal: DefaultEndpointReconcilerTTL in
	// k8s.io/kubernetes/pkg/controlplane/instance.go.
	EndpointTTL = 15 * time.Second
	// EndpointInterval is the time between two reconciliations of the
	// default/kubernetes endpoints: DefaultEndpointReconcilerInterval in the
	// same place.
	EndpointInterval = 10 * time.Second
)

// Defaults of the components' own flags.
const (
	defaultLeaseDuration   = 15 * time.Second
	defaultRenewDeadline   = 10 * time.Second
	defaultRetryPeriod     = 2 * time.Second
	defaultElectionTimeout = time.Second
	// defaultNodeGrace is the default of kube-controller-manager since Kubernetes 1.32: see
	// RecommendedDefaultNodeLifecycleControllerConfiguration in
	// k8s.io/kubernetes/pkg/controller/nodelifecycle/config/v1alpha1/defaults.go.
	defaultNodeGrace = 50 * time.Second
	// defaultNodePeriod is in the same place.
	defaultNodePeriod = 5 * time.Second
	// defaultAddonInterval is the default of Kubernetes' own add-on manager: see
	// ADDON_CHECK_INTERVAL_SEC in cluster/addons/addon-manager/kube-addons-main.sh.
	defaultAddonInterval = time.Minute
)

// BoundFlags are the flags by component that Settings uses.
var BoundFlags = map[framework.Component][]string{
	framework.Etcd:      {"election-timeout"},
	framework.APIServer: {"etcd-servers", "goaway-chance"},
	framework.ControllerManager: {"leader-elect", "leader-elect-lease-duration", "leader-elect-renew-deadline", "leader-elect-retry-period",
		"node-monitor-grace-period", "node-monitor-period"},
	framework.Scheduler: {"leader-elect", "leader-elect-lease-duration", "leader-elect-renew-deadline", "leader-elect-retry-period"},
}

// AddonManager returns the arguments of a node's add-on manager: the interval between two
// passes, and the release whose add-ons it applies, by default the node's own. The node has an
// add-on manager only if the cluster file has arguments for it.
func (n Node) AddonManager() (interval time.Duration, release string, ok bool, err error) {
	args, ok := n.ExtraArgs[framework.AddonManager]
	interval, release = defaultAddonInterval, n.KubernetesVersion
	for flag, text := range args {
		switch flag {
		case "interval":
			interval, err = parseDuration(text)
		case "release":
			release = text
		default:
			err = errors.New("want interval or release")
		}
		if err != nil {
			return 0, "", ok, &badArgument{node: n.Index, component: framework.AddonManager, flag: flag, value: text, err: err}
		}
	}
	return interval, release, ok, nil
}

// Margin covers the time of the measurement itself.
const Margin = 2 * time.Second

// isLoopback reports whether a URL in etcd-servers is the node's own loopback address.
func isLoopback(server string) bool {
	u, err := url.Parse(server)
	if err != nil {
		return false
	}
	addr, err := netip.ParseAddr(u.Hostname())
	return u.Hostname() == "localhost" || err == nil && addr.IsLoopback()
}

// etcdServers returns the URLs at which API servers reach etcd, without loopback addresses, and
// whether one of them uses several members, or all the same one.
func etcdServers(nodes []Node) (servers []string, remote bool) {
	used := map[string]int{}
	for _, node := range nodes {
		own := strings.FieldsFunc(node.ExtraArgs[framework.APIServer]["etcd-servers"], func(r rune) bool { return r == ',' })
		remote = remote || len(own) > 1
		for _, server := range own {
			if !isLoopback(server) {
				used[server]++
			}
		}
	}
	for _, times := range used {
		remote = remote || times > 1
	}
	return slices.Sorted(maps.Keys(used)), remote
}

// Settings returns the durations from which bounds are computed, as configured on the
// components. If nodes differ the longest is used, since a bound must hold whichever instance
// is elected; the same applies if elected components differ, for settings of all of them. The
// health check is used as written, even if it is disabled.
func Settings(c *Cluster) (framework.Settings, error) {
	s := framework.Settings{
		EndpointTTL:       EndpointTTL,
		EndpointInterval:  EndpointInterval,
		BalancerDetection: c.Spec.LoadBalancer.Detection(),
		Margin:            Margin,
	}
	s.Elections = map[framework.Component]framework.Election{}
	maps.Copy(s.Elections, c.Spec.Leases)
	for i, node := range c.Nodes() {
		chance, err := goawayChance(node)
		if err != nil {
			return framework.Settings{}, err
		}
		if c.Runs(i, framework.APIServer) && (i == 0 || chance < s.GoawayChance) {
			s.GoawayChance = chance // the first node has an API server
		}
		interval, _, _, err := node.AddonManager()
		if err != nil {
			return framework.Settings{}, err
		}
		s.AddonInterval = max(s.AddonInterval, interval)
		for _, component := range electable {
			if !c.Runs(i, component) {
				continue
			}
			lease, renew, retry, err := node.ElectionTimes(component)
			if err != nil {
				return framework.Settings{}, err
			}
			e := s.Elections[component]
			s.Elections[component] = framework.Election{LeaseDuration: max(e.LeaseDuration, lease), RenewDeadline: max(e.RenewDeadline, renew), RetryPeriod: max(e.RetryPeriod, retry)}
			s.LeaseDuration, s.RenewDeadline, s.RetryPeriod = max(s.LeaseDuration, lease), max(s.RenewDeadline, renew), max(s.RetryPeriod, retry)
		}
		for _, setting := range []struct {
			into      *time.Duration
			component framework.Component
			flag      string
			missing   time.Duration
			parse     func(string) (time.Duration, error)
		}{
			{&s.ElectionTimeout, framework.Etcd, "election-timeout", defaultElectionTimeout, parseMilliseconds},
			{&s.NodePeriod, framework.ControllerManager, "node-monitor-period", defaultNodePeriod, parseDuration},
			{&s.NodeGrace, framework.ControllerManager, "node-monitor-grace-period", defaultNodeGrace, parseDuration},
		} {
			if !c.Runs(i, setting.component) {
				continue
			}
			value, err := argument(node, setting.component, setting.flag, setting.missing, setting.parse)
			if err != nil {
				return framework.Settings{}, err
			}
			*setting.into = max(*setting.into, value)
		}
	}
	s.EtcdServers, s.RemoteEtcd = etcdServers(c.Nodes())
	s.Origins = Origins(c, s, nil)
	return s, nil
}

// maxGoawayChance is the greatest one that the API server accepts: see
// k8s.io/apiserver/pkg/server/options/server_run_options.go.
const maxGoawayChance = 0.02

// goawayChance returns the --goaway-chance of a node's API server, 0 if it has none.
func goawayChance(node Node) (float64, error) {
	return argument(node, framework.APIServer, "goaway-chance", 0, func(text string) (float64, error) {
		chance, err := strconv.ParseFloat(text, 64)
		if err == nil && (chance < 0 || chance > maxGoawayChance) {
			err = fmt.Errorf("want a number from 0 to %g", maxGoawayChance)
		}
		return chance, err
	})
}

// argument returns the value of a flag of a component on a node; missing if it is not set. Its error is
// a *badArgument.
func argument[T any](n Node, c framework.Component, flag string, missing T, parse func(string) (T, error)) (T, error) {
	text, ok := n.ExtraArgs[c][flag]
	if !ok {
		return missing, nil
	}
	value, err := parse(text)
	if err != nil {
		return missing, &badArgument{node: n.Index, component: c, flag: flag, value: text, err: err}
	}
	return value, nil
}

// badArgument is an extra argument that a bound depends on and that cannot be parsed.
type badArgument struct {
	node        int
	component   framework.Component
	flag, value string
	err         error
}

func (b *badArgument) Error() string {
	return fmt.Sprintf("argument --%s=%s of %s: %v", b.flag, b.value, b.component, b.err)
}

func (b *badArgument) Unwrap() error { return b.err }

// path is the field of the cluster file that the argument comes from.
func (b *badArgument) path(c *Cluster) string {
	path := "spec.extraArgs"
	if _, own := c.Spec.Nodes[b.node].ExtraArgs[b.component][b.flag]; own {
		path = fmt.Sprintf("spec.nodes[%d].extraArgs", b.node)
	}
	return yamlfile.Join(yamlfile.Join(path, string(b.component)), b.flag)
}

func parseDuration(text string) (time.Duration, error) {
	d, err := time.ParseDuration(text)
	if err == nil && d <= 0 {
		err = fmt.Errorf("want more than 0")
	}
	return d, err
}

func parseMilliseconds(text string) (time.Duration, error) {
	n, err := strconv.ParseUint(text, 10, 31)
	if err != nil || n == 0 {
		return 0, fmt.Errorf("want a whole number of milliseconds above 0")
	}
	return time.Duration(n) * time.Millisecond, nil
}

// RuntimeEnvironment returns the environment of the components on each of that many nodes that
// share a machine, all of them Go programs. GOMAXPROCS is a node's share of the processors, as
// if it were a machine of its own: a dozen processes that all use every processor mostly slow
// each other down; on two processors three nodes use an eighth more of them, and take a fifth
// longer to start. GOGC trades memory (a third more in API servers, bounded by GOMEMLIMIT) for
// the allocations during a server's start: it uses a quarter less processor time.
func RuntimeEnvironment(processors, nodes int) map[string]string {
	share := max(1, (processors+nodes-1)/nodes)
	return map[string]string{"GOMAXPROCS": strconv.Itoa(share), "GOGC": "400", "GOMEMLIMIT": "1GiB"}
}
