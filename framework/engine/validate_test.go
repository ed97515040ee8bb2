package engine

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/fault"
	"github.com/holdfast-ha/holdfast/framework/record"
	"github.com/holdfast-ha/holdfast/framework/workload"
)

func TestValidate(t *testing.T) {
	a := Step{Inject: &Inject{ID: "a", Fault: "kill", Target: "etcd/leader"}}
	good := record.Check{Requirement: "X", Judge: "etcd-membership"}
	steps := func(s ...Step) Experiment {
		return Experiment{Name: "x", Timeline: s, Checks: []record.Check{good}}
	}
	inject := func(change func(*Inject)) Experiment {
		in := *a.Inject
		change(&in)
		return steps(Step{Inject: &in})
	}
	check := func(c record.Check) Experiment {
		return Experiment{Name: "x", Timeline: []Step{a}, Checks: []record.Check{c}}
	}
	until := func(condition, id, atMost string) Step {
		return Step{Until: &Until{Condition: condition, Fault: id, AtMost: atMost}}
	}
	gap := record.Check{Requirement: "X", Judge: "write-gap", Bound: "2E + M", Fault: "a"}
	with := func(change func(*record.Check)) Experiment {
		c := gap
		change(&c)
		return check(c)
	}
	for name, test := range map[string]struct {
		e Experiment
		// want is the problem's path and part of its text; empty for none.
		want, text string
	}{
		"good":      {steps(a, until("steady", "", "2E + M"), Step{Wait: "2E + 3s"}, Step{Heal: "a"}), "", ""},
		"targets":   {steps(Step{Inject: &Inject{ID: "a", Fault: "kill", Target: "apiserver/kcm/active"}}, Step{Inject: &Inject{ID: "b", Fault: "isolate", Target: "node/2"}}, Step{Inject: &Inject{ID: "c", Fault: "kill", Target: "balancer"}}, Step{Inject: &Inject{ID: "d", Fault: "isolate", Target: "zone/b"}}, Step{Inject: &Inject{ID: "e", Fault: "power-off", Target: "nodes"}}), "", ""},
		"bad name":  {Experiment{Name: "X y", Timeline: []Step{a}, Checks: []record.Check{good}}, "name", `"X y"`},
		"no steps":  {steps(), "timeline", "has no step"},
		"no checks": {Experiment{Name: "x", Timeline: []Step{a}}, "requirements", "names no requirement"},
		"traffic": {Experiment{Name: "x", Timeline: []Step{a}, Checks: []record.Check{gap}, Traffic: Traffic{Settings: workload.Settings{Profiles: []string{"noise"}}}},
			"traffic.profiles[0]", "allowed: application, registers, lists"},
		"probes":                          {Experiment{Name: "x", Timeline: []Step{a}, Checks: []record.Check{gap}, ProbeInterval: time.Millisecond}, "probes.interval", "want 10ms to 1s"},
		"no part":                         {steps(Step{}), "timeline[0]", "exactly one"},
		"two parts":                       {steps(Step{Wait: "1s", Heal: "a"}), "timeline[0]", "has 2 of"},
		"bad wait":                        {steps(Step{Wait: "soon"}), "timeline[0].wait", "neither a symbol"},
		"no wait":                         {steps(Step{Wait: "0s"}), "timeline[0].wait", "not a time above zero"},
		"no ID":                           {inject(func(i *Inject) { i.ID = "" }), "timeline[0].inject.as", "not a name"},
		"same ID":                         {steps(a, a), "timeline[1].inject.as", "already"},
		"unknown fault":                   {inject(func(i *Inject) { i.Fault = "explode" }), "timeline[0].inject.fault", `"explode" is not a fault: want one of `},
		"no target":                       {inject(func(i *Inject) { i.Target = "" }), "timeline[0].inject.target", "target"},
		"takes writes back, with traffic": {inject(func(i *Inject) { i.Fault, i.Target = "restore-snapshot", "etcd/1" }), "timeline[0].inject.fault", "want traffic: {off: true}"},
		"takes writes back, without traffic": {func() Experiment {
			e := inject(func(i *Inject) { i.Fault, i.Target = "restore-snapshot", "etcd/1" })
			e.Traffic.Off = true
			return e
		}(), "", ""},
		"bad target":       {inject(func(i *Inject) { i.Target = "etcd/queen!" }), "timeline[0].inject.target", "queen!"},
		"bad role":         {inject(func(i *Inject) { i.Target = "scheduler/leader" }), "timeline[0].inject.target", "does not fit"},
		"unknown param":    {inject(func(i *Inject) { i.Params = map[string]string{"x": "y"} }), "timeline[0].inject.params.x", "restart"},
		"bad TTL":          {inject(func(i *Inject) { i.TTL = "-1s" }), "timeline[0].inject.ttl", "negative"},
		"heal nothing":     {steps(Step{Heal: "a"}), "timeline[0].heal", "nothing is injected"},
		"heal one of two":  {steps(a, Step{Heal: "a, b"}), "timeline[1].heal", `"b"`},
		"heal twice":       {steps(a, Step{Heal: "a"}, Step{Heal: "a"}), "timeline[2].heal", "already healed"},
		"heal too early":   {steps(Step{Heal: "a"}, a), "timeline[0].heal", "before this step"},
		"unknown until":    {steps(a, until("peace", "a", "E")), "timeline[1].until.condition", "endpoint-back, endpoint-gone"},
		"until of nothing": {steps(until("takeover", "", "E")), "timeline[0].until.fault", "needs the name"},
		"until of other":   {steps(a, until("takeover", "b", "E")), "timeline[1].until.fault", "there is a"},
		"until for good":   {steps(until("steady", "", "")), "timeline[0].until.atMost", "is missing"},
		"until bad":        {steps(until("steady", "", "2Q")), "timeline[0].until.atMost", `"2Q" is neither a symbol`},
		"unknown action":   {steps(Step{Action: &Action{Name: "dance"}}), "timeline[0].action.name", "cross-member, cross-read"},
		"action needs":     {steps(Step{Action: &Action{Name: "stale-read"}}), "timeline[0].action.fault", "needs the name"},
		"action does not":  {steps(a, Step{Action: &Action{Name: "ready", Fault: "a"}}), "timeline[1].action.fault", "not about"},
		"check":            {with(func(c *record.Check) { c.Params = map[string]string{"newLeader": "true"} }), "", ""},
		"unknown judge":    {with(func(c *record.Check) { c.Judge = "oracle" }), "requirements[0].judge", "want one of"},
		"judge of all":     {with(func(c *record.Check) { c.Judge = "harness" }), "requirements[0].judge", "not a judge"},
		"no bound":         {with(func(c *record.Check) { c.Bound = "" }), "requirements[0].bound", "needs one"},
		"bad bound":        {with(func(c *record.Check) { c.Bound = "soon" }), "requirements[0].bound", "neither a symbol"},
		"no fault":         {with(func(c *record.Check) { c.Fault = "" }), "requirements[0].fault", "needs the name"},
		"other fault":      {with(func(c *record.Check) { c.Fault = "b" }), "requirements[0].fault", "there is a"},
		"param's value":    {with(func(c *record.Check) { c.Params = map[string]string{"newLeader": "True"} }), "requirements[0].params.newLeader", "want true or false"},
		"check's param":    {with(func(c *record.Check) { c.Params = map[string]string{"p": "1"} }), "requirements[0].params.p", "newLeader"},
		"check's faults": {check(record.Check{Requirement: "X", Judge: "quorum-loss", Bound: "M", Fault: "a", Params: map[string]string{"faults": "a,b"}}),
			"requirements[0].params.faults", `nothing as "b"`},
		"same check": {Experiment{Name: "x", Timeline: []Step{a}, Checks: []record.Check{gap, gap}}, "requirements[1].id", "requirements[0]"},
	} {
		t.Run(name, func(t *testing.T) {
			problems := test.e.Validate(Options{})
			switch {
			case test.want == "" && len(problems) > 0:
				t.Error(problems)
			case test.want != "" && (len(problems) != 1 || problems[0].Path != test.want || !strings.Contains(problems[0].Error(), test.text)):
				t.Errorf("got %v\nwant %s: …%s…", problems, test.want, test.text)
			}
		})
	}
}

// All problems are reported at the same time.
func TestValidateAll(t *testing.T) {
	e := Experiment{Name: "x", Timeline: []Step{{Heal: "a"}, {Wait: "soon"}}, Checks: []record.Check{{Requirement: "X", Judge: "oracle"}}}
	if got := e.Validate(Options{}); len(got) != 3 {
		t.Error(got)
	}
}

type injectionAt struct {
	fault.Injection
	called time.Time
	target fault.Target
}

func (i injectionAt) Target() fault.Target { return i.target }

func (i injectionAt) Proof() fault.Proof { return fault.Proof{Proven: true, Called: i.called} }

func TestRecoveryLimit(t *testing.T) {
	s := framework.Settings{ElectionTimeout: time.Second, Margin: 2 * time.Second}
	now := time.Now()
	for _, test := range []struct {
		fault  *fault.Fault
		on     framework.Component
		lasted time.Duration
		proven bool
		want   time.Duration
	}{
		{fault.Kill, framework.APIServer, time.Hour, true, 4 * time.Second},
		{fault.Kill, framework.APIServer, time.Hour, false, 14 * time.Second},
		{fault.Kill, framework.ControllerManager, time.Hour, true, 14 * time.Second},
		{fault.PowerOff, "", time.Hour, true, 14 * time.Second},
		{fault.Kill, framework.Etcd, 10 * time.Second, true, 14200 * time.Millisecond},
		{fault.Kill, framework.Etcd, 10 * time.Second, false, 24200 * time.Millisecond},
		{fault.Kill, framework.Etcd, time.Hour, true, longestBackOff},
		{fault.IsolateEtcd, "", 10 * time.Second, true, 21 * time.Second},
		{fault.Isolate, "", 3 * time.Second, true, 14 * time.Second},
		{fault.Isolate, "", time.Hour, true, longestBackOff},
	} {
		i := &activeFault{fault: test.fault, inj: injectionAt{called: now.Add(-test.lasted), target: fault.Target{Component: test.on}}}
		if got := recoveryLimit(s, i, now, test.proven); got != test.want {
			t.Errorf("%s for %s: %s, want %s", test.fault.Name, test.lasted, got, test.want)
		}
	}
}

// TestRecoveryLimits: each healing has a limit of its own, and none once the cluster was checked.
func TestRecoveryLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := framework.Settings{ElectionTimeout: time.Second, Margin: 2 * time.Second}
		cut := &activeFault{fault: fault.Isolate, inj: injectionAt{called: time.Now().Add(-20 * time.Second)}} // until 31 s
		kill := func() *activeFault {
			return &activeFault{fault: fault.Kill, inj: injectionAt{called: time.Now(), target: fault.Target{Component: framework.APIServer}}} // 4 s
		}
		for _, tc := range []struct {
			name  string
			then  time.Duration // from the healing of the cut to that of the kill; 0 for none
			later time.Duration
			seen  bool
			want  time.Duration // from the last healing
		}{
			{name: "alone", want: 31 * time.Second},
			{name: "alone, after a while", later: 8 * time.Second, want: 31 * time.Second},
			{name: "another one soon", then: 10 * time.Second, want: 21 * time.Second},
			{name: "another one when the limit is over", then: time.Minute, want: 4 * time.Second},
			{name: "checked since", later: 8 * time.Second, seen: true, want: 4 * time.Second},
		} {
			r, now := recovery{}, time.Now()
			r.add(s, cut, now, now)
			if tc.then > 0 {
				r.add(s, kill(), now.Add(tc.then), now.Add(tc.then))
			}
			time.Sleep(tc.then + tc.later)
			r.checked = tc.seen
			from, limit := r.limits(s)
			if since := now.Add(tc.then); !tc.seen && !from.Equal(since) || tc.seen && !from.Equal(time.Now()) || limit != tc.want {
				t.Errorf("%s: %s from %s on, want %s", tc.name, limit, from.Sub(now), tc.want)
			}
			cut.inj = injectionAt{called: time.Now().Add(-20 * time.Second)}
		}
	})
}
