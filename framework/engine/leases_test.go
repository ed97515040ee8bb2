package engine

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/fault"
	"github.com/holdfast-ha/holdfast/framework/observe"
	"github.com/holdfast-ha/holdfast/framework/record/recordtest"
	"github.com/holdfast-ha/holdfast/framework/workload/client"
)

// hit is an injection that did nothing but hit a target.
type hit struct {
	fault.Injection
	target fault.Target
}

func (h hit) Target() fault.Target { return h.target }

func TestHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newFake(t)
		r := &run{cluster: c, apis: map[string]*client.API{}}
		defer r.close()
		first, second := c.nodes[0].Name(), c.nodes[1].Name()
		for id, component := range map[string]framework.Component{"kcm": framework.ControllerManager, "apiserver": framework.APIServer} {
			r.injections = append(r.injections, &activeFault{step: &Inject{ID: id}, inj: hit{target: fault.Target{Node: first, Component: component}}})
		}
		lease := func(component framework.Component, holder string) {
			c.Set("/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/"+string(component),
				fmt.Sprintf(`{"metadata":{"name":%q},"spec":{"holderIdentity":%q}}`, component, holder))
		}
		for _, test := range []struct {
			kcm, scheduler, condition, fault, want string
		}{
			{first + "_a", "", "active", "kcm", ""},
			{first + "_a", "", "takeover", "kcm", `the lease of kube-controller-manager is held by "` + first},
			{second + "_b", "", "takeover", "kcm", ""},
			{"", "", "active", "kcm", `is held by ""`},
			{"holdfast-stranger", "", "active", "kcm", `is held by "holdfast-stranger"`},
			{"holdfast-stranger", "", "takeover", "kcm", `is held by "holdfast-stranger"`},
			{second + "_b", first + "_a", "takeover", "apiserver", "the lease of kube-scheduler is held by"},
			{second + "_b", second + "_b", "takeover", "apiserver", ""},
			{second + "_b", second + "_b", "takeover", "other", `no injection is named "other"`},
		} {
			lease(framework.ControllerManager, test.kcm)
			lease(framework.Scheduler, test.scheduler)
			err := r.condition(t.Context(), &Until{Condition: test.condition, Fault: test.fault})
			if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
				t.Errorf("%+v: %v", test, err)
			}
		}
	})
}

// autoscaled names a further lease.
type autoscaled struct{ *fakeCluster }

func (autoscaled) Settings() framework.Settings {
	return framework.Settings{Elections: map[framework.Component]framework.Election{framework.Scheduler: {}, "cluster-autoscaler": {}}}
}

// TestLeasesRenewed: the condition waits for a renewal after the fault of each further lease
// that was ever held, and for no other.
func TestLeasesRenewed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := autoscaled{newFake(t)}
		w, _ := recordtest.New(t)
		o, err := observe.Start(t.Context(), observe.Config{Cluster: c, LeaseInterval: 20 * time.Millisecond}, w)
		if err != nil {
			t.Fatal(err)
		}
		defer o.Stop()
		r := &run{cluster: c, w: w, observers: o, apis: map[string]*client.API{}}
		defer r.close()
		renew := func(version int) {
			for _, name := range []string{"kube-scheduler", "cluster-autoscaler"} {
				if name == "kube-scheduler" && version > 1 {
					continue // no matter
				}
				c.Set(leasePath+name, fmt.Sprintf(`{"kind":"Lease","metadata":{"name":%q},"spec":{"holderIdentity":"node-1_a","renewTime":"2026-01-02T03:04:%02d.000000Z"}}`, name, version))
			}
		}
		inject := func() {
			r.injections = []*activeFault{{step: &Inject{ID: "cut"}, inj: lasting{called: time.Now()}}}
		}
		look := func() error { return r.condition(t.Context(), &Until{Condition: "leases-renewed", Fault: "cut"}) }
		inject()
		if err := look(); err != nil {
			t.Errorf("without such a lease: %v", err)
		}
		renew(1)
		for o.Renewal("cluster-autoscaler").Holder == "" {
			time.Sleep(time.Millisecond)
		}
		inject()
		if err := look(); err == nil || !strings.Contains(err.Error(), "the lease of cluster-autoscaler was not seen to be renewed") {
			t.Errorf("without a renewal: %v", err)
		}
		for version := 2; look() != nil; version++ {
			if version == 60 {
				t.Fatal("renewals are not seen")
			}
			renew(version)
			time.Sleep(100 * time.Millisecond)
		}
	})
}

// lasting is an injection that was called for at some time.
type lasting struct {
	fault.Injection
	called time.Time
}

func (l lasting) Proof() fault.Proof { return fault.Proof{Called: l.called} }

// quick has leases that run out soon.
type quick struct{ *fakeCluster }

func (quick) Settings() framework.Settings {
	return framework.Settings{LeaseDuration: 500 * time.Millisecond, RetryPeriod: 200 * time.Millisecond, Margin: 1500 * time.Millisecond}
}

func TestAwaitElected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := quick{newFake(t)}
		lease := func(component framework.Component, holder string, renewed time.Time) {
			c.Set(leasePath+string(component), fmt.Sprintf(`{"metadata":{"name":%q},"spec":{"holderIdentity":%q,"renewTime":%q}}`,
				component, holder, renewed.Format(time.RFC3339Nano)))
		}
		await := func() error {
			r := &run{cluster: c, apis: map[string]*client.API{}}
			defer r.close()
			return r.awaitElected(t.Context())
		}
		unheld := func(what string) {
			t.Helper()
			if err := await(); err == nil || !strings.Contains(err.Error(), "no instance renews the lease of kube-controller-manager") {
				t.Errorf("%s: %v", what, err)
			}
		}
		if err := await(); err != nil {
			t.Errorf("without any lease: %v", err)
		}
		lease(framework.ControllerManager, "node-1_a", time.Now().Add(-time.Hour))
		unheld("a lease that is not renewed")
		lease(framework.ControllerManager, "", time.Now())
		unheld("a lease that is not held")
		lease(framework.ControllerManager, "node-1_a", time.Now().Add(-time.Hour))
		time.AfterFunc(time.Second, func() { lease(framework.ControllerManager, "node-1_a", time.Now().Add(-time.Minute)) })
		if err := await(); err != nil {
			t.Errorf("a renewal after 1 s, by another clock: %v", err)
		}
	})
}
