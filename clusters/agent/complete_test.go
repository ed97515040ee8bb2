package agent

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/framework"
)

// TestFaultOfAnotherConfiguration: an agent whose configuration lacks a component, since a fault kept it
// from running when the configuration was made, heals it all the same; without a fault it does not know
// the component.
func TestFaultOfAnotherConfiguration(t *testing.T) {
	t.Parallel()
	for name, ttl := range map[string]time.Duration{"in time": 4 * time.Second, "when asked to": time.Hour} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n, db := etcdNode(t)
			_, err := n.WipeDisk(t.Context(), ttl)
			must(t, err)
			must(t, n.Kill(t.Context(), etcdPod, ttl))
			n.kill()
			n.config.Components, n.config.EtcdData = nil, ""
			n.up()
			if ttl == time.Hour {
				left, err := n.Active(t.Context())
				if err != nil || len(left) != 2 || exists(db) {
					t.Errorf("active are %q, %v; the data are there: %t", left, err, exists(db))
				}
				script, err := os.ReadFile(undoFile(n.config.Dir))
				if err != nil || !strings.Contains(string(script), ".holdfast-aside") || !strings.Contains(string(script), "kill -CONT") {
					t.Errorf("the script is %s, %v", script, err)
				}
				must(t, n.HealAll(t.Context()))
			}
			eventually(t, "nothing is active", func() bool {
				left, err := n.Active(t.Context())
				return err == nil && len(left) == 0
			})
			if !exists(db) {
				t.Error("the data are not there")
			}
			n.runs(etcdPod)
			n.kill()
			n.up()
			if _, err := n.Process(t.Context(), etcdPod); err == nil || !strings.Contains(err.Error(), "no component") {
				t.Errorf("without a fault, the component is known: %v", err)
			}
		})
	}
}

func TestComplete(t *testing.T) {
	at := time.Now()
	unit := Component{Name: framework.NodeAgent, Command: "kubelet", Unit: "kubelet.service"}
	pod := Component{Name: scheduler, Command: "kube-scheduler", Manifest: "/etc/kubernetes/manifests/kube-scheduler.yaml"}
	member := Component{Name: etcdPod, Command: "etcd"}
	for name, tc := range map[string]struct {
		state  state
		config Config
		want   []framework.Component
		data   string
	}{
		"no fault":             {state: state{Components: map[framework.Component]*componentState{unit.Name: {PID: 7, Spec: unit}}}},
		"a unit held down":     {state: state{Components: map[framework.Component]*componentState{unit.Name: {HoldUntil: at, Spec: unit}}}, want: []framework.Component{unit.Name}},
		"a frozen process":     {state: state{Components: map[framework.Component]*componentState{pod.Name: {ThawAt: at, Spec: pod}}}, want: []framework.Component{pod.Name}},
		"a crash loop":         {state: state{Components: map[framework.Component]*componentState{pod.Name: {CrashUntil: at, Spec: pod}}}, want: []framework.Component{pod.Name}},
		"a stopped shim":       {state: state{Components: map[framework.Component]*componentState{pod.Name: {Stopped: []shim{{PID: 7}}, Spec: pod}}}, want: []framework.Component{pod.Name}},
		"it is configured":     {state: state{Components: map[framework.Component]*componentState{pod.Name: {HoldUntil: at, Spec: pod}}}, config: Config{Components: []Component{pod}}, want: []framework.Component{pod.Name}},
		"of an earlier agent":  {state: state{Components: map[framework.Component]*componentState{pod.Name: {HoldUntil: at}}}},
		"wiped data":           {state: state{Wiped: &wipedState{Data: "/data"}, Components: map[framework.Component]*componentState{etcdPod: {Spec: member}}}, want: []framework.Component{etcdPod}, data: "/data"},
		"a full volume":        {state: state{Filled: &filledState{}, Components: map[framework.Component]*componentState{etcdPod: {Spec: member}}}, want: []framework.Component{etcdPod}},
		"another's directory":  {state: state{Wiped: &wipedState{Data: "/data"}}, config: Config{EtcdData: "/other"}, data: "/data"},
		"wiped by an earlier":  {state: state{Wiped: &wipedState{}}, config: Config{EtcdData: "/other"}, data: "/other"},
		"with nothing at all":  {},
		"only what it has now": {config: Config{Components: []Component{unit}, EtcdData: "/other"}, want: []framework.Component{unit.Name}, data: "/other"},
	} {
		s := &store{s: tc.state}
		c := s.complete(tc.config)
		var got []framework.Component
		for _, one := range c.Components {
			got = append(got, one.Name)
		}
		if !slices.Equal(got, tc.want) || c.EtcdData != tc.data {
			t.Errorf("%s: components %v, data %q, want %v and %q", name, got, c.EtcdData, tc.want, tc.data)
		}
	}
}
