package engine

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/fault"
	"github.com/holdfast-ha/holdfast/framework/workload/client"
)

// hit is an injection that did nothing but hit a target.
type hit struct {
	fault.Injection
	target fault.Target
}

func (h hit) Target() fault.Target { return h.target }

func TestHeld(t *testing.T) {
	t.Parallel()
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
		{second + "_b", second + "_b", "takeover", "other", `nothing is injected as "other"`},
	} {
		lease(framework.ControllerManager, test.kcm)
		lease(framework.Scheduler, test.scheduler)
		err := r.condition(t.Context(), &Until{Condition: test.condition, Fault: test.fault})
		if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%+v: %v", test, err)
		}
	}
}

// quick has leases that run out soon.
type quick struct{ *fakeCluster }

func (quick) Settings() framework.Settings {
	return framework.Settings{LeaseDuration: 500 * time.Millisecond, RetryPeriod: 200 * time.Millisecond, Margin: 1500 * time.Millisecond}
}

func TestAwaitElected(t *testing.T) {
	t.Parallel()
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
	nobody := func(what string) {
		t.Helper()
		if err := await(); err == nil || !strings.Contains(err.Error(), "no instance renews the lease of kube-controller-manager") {
			t.Errorf("%s: %v", what, err)
		}
	}
	if err := await(); err != nil {
		t.Errorf("without any lease: %v", err)
	}
	lease(framework.ControllerManager, "node-1_a", time.Now().Add(-time.Hour))
	nobody("a lease that is not renewed")
	lease(framework.ControllerManager, "", time.Now())
	nobody("a lease that is not held")
	lease(framework.ControllerManager, "node-1_a", time.Now().Add(-time.Hour))
	time.AfterFunc(time.Second, func() { lease(framework.ControllerManager, "node-1_a", time.Now().Add(-time.Minute)) })
	if err := await(); err != nil {
		t.Errorf("a renewal after 1 s, by another clock: %v", err)
	}
}
