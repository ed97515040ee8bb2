package engine

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/fault"
	"github.com/holdfast-ha/holdfast/framework/judge"
	"github.com/holdfast-ha/holdfast/framework/nearest"
	"github.com/holdfast-ha/holdfast/framework/record"
	"github.com/holdfast-ha/holdfast/framework/workload"
)

var (
	validName = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)
	// usual gives every symbol of a formula its default value.
	usual = framework.Settings{LeaseDuration: 15 * time.Second, RenewDeadline: 10 * time.Second, RetryPeriod: 2 * time.Second,
		EndpointTTL: 15 * time.Second, EndpointInterval: 10 * time.Second, ElectionTimeout: time.Second,
		BalancerDetection: 3 * time.Second, Margin: 2 * time.Second, NodeGrace: 50 * time.Second, NodePeriod: 5 * time.Second, AddonInterval: time.Minute}.Symbols()
)

// longest is the longest time that a formula in a file may evaluate to with the defaults.
const longest = 24 * time.Hour

// Validate returns everything that is wrong and can be detected without a cluster. Of the options
// it uses the faults and judges that the experiment may name.
func (e Experiment) Validate(o Options) []workload.Problem {
	v := &validator{faults: o.Faults, judges: o.Judges, traffic: !e.Traffic.Off, injected: map[string]bool{}, changes: map[string]bool{}}
	if !validName.MatchString(e.Name) {
		v.add("name", "%q is not a name: want up to 63 lower-case letters, digits and dashes", e.Name)
	}
	for _, p := range e.Traffic.Validate() {
		v.add("traffic."+p.Path, "%w", p.Err)
	}
	if p := e.ProbeInterval; p != 0 && (p < 10*time.Millisecond || p > time.Second) {
		v.add("probes.interval", "%s is out of range: want 10ms to 1s", p)
	}
	if len(e.Timeline) == 0 {
		v.add("timeline", "has no step")
	}
	for i, s := range e.Timeline {
		v.step(fmt.Sprintf("timeline[%d]", i), s)
	}
	if len(e.Checks) == 0 {
		v.add("requirements", "names no requirement: a scenario settles at least one")
	}
	seen := map[string]int{}
	for i, c := range e.Checks {
		path := fmt.Sprintf("requirements[%d]", i)
		key := c.Requirement + " " + c.Fault + " " + c.Judge + paramText(c.Params)
		if first, dup := seen[key]; dup {
			v.add(path+".id", "%s is the same as requirements[%d]", c.Requirement, first)
		}
		seen[key] = i
		v.check(path, c)
	}
	v.problems = append(v.problems, e.Misplaced(nil)...)
	return v.problems
}

type validator struct {
	faults   []*fault.Fault // in addition to the built-in ones
	judges   []judge.Judge  // likewise
	traffic  bool
	problems []workload.Problem
	injected map[string]bool // by ID: whether it is active
	changes  map[string]bool // of nodes, by ID: whether the node that it added exists
	joined   []string        // IDs of those that add one, in order
	left     []string        // IDs of those that remove one, in order
}

func (v *validator) add(path, format string, args ...any) {
	v.problems = append(v.problems, workload.Problem{Path: path, Err: fmt.Errorf(format, args...)})
}

func (v *validator) step(path string, s Step) {
	n := 0
	for _, set := range []bool{s.Inject != nil, s.Heal != "", s.Wait != "", s.Until != nil, s.Action != nil} {
		if set {
			n++
		}
	}
	if n != 1 {
		v.add(path, "has %d of inject, heal, wait, until and action: a step is exactly one of them", n)
		return
	}
	switch {
	case s.Inject != nil:
		v.inject(path+".inject", s.Inject)
	case s.Heal != "":
		for _, id := range s.heals() {
			in, known := v.injected[id]
			switch {
			case !known:
				v.add(path+".heal", "nothing is injected as %q before this step%s", id, v.known())
			case !in:
				v.add(path+".heal", "%q is already healed", id)
			default:
				v.injected[id] = false
			}
		}
	case s.Wait != "":
		v.formula(path+".wait", s.Wait)
	case s.Until != nil:
		v.named(path+".until", s.Until.Condition, s.Until.Fault, "condition", aboutFaults(conditions(), func(c condition) bool { return c.aboutFault }))
		v.formula(path+".until.atMost", s.Until.AtMost)
	case s.Action != nil:
		v.named(path+".action", s.Action.Name, s.Action.Fault, "name", aboutFaults(actions(), func(a action) bool { return a.aboutFault }))
		v.nodes(path+".action", s.Action)
	}
}

func (v *validator) inject(path string, in *Inject) {
	f, err := fault.Find(in.Fault, v.faults...)
	if err != nil {
		v.add(path+".fault", "%w", err)
	} else {
		known := f.ParamNames()
		for _, name := range sortedKeys(in.Params) {
			if !slices.Contains(known, name) {
				v.add(path+".params."+name, "fault %s has no such parameter: it accepts %s", in.Fault, listed(known))
			}
		}
		if v.traffic && slices.Contains(f.EffectsWith(in.Params), record.EffectRestored) {
			v.add(path+".fault", "%s takes acknowledged writes back, which the invariants of a run with traffic forbid: want traffic: {off: true}", in.Fault)
		}
	}
	if _, err := fault.Names(in.Target); err != nil {
		v.add(path+".target", "%w", err)
	}
	if in.TTL != "" {
		v.formula(path+".ttl", in.TTL)
	}
	switch _, dup := v.injected[in.ID]; {
	case !validName.MatchString(in.ID):
		v.add(path+".as", "%q is not a name for an injection: want lower-case letters, digits and dashes", in.ID)
	case dup:
		v.add(path+".as", "another injection is already called %q", in.ID)
	default:
		v.injected[in.ID] = true
	}
}

// named checks a condition or an action and the injection that it is about.
func (v *validator) named(path, name, id, field string, all map[string]bool) {
	needs, ok := all[name]
	if !ok {
		v.add(path+"."+field, "%q is unknown%s: want one of %s", name, nearest.Meant(sortedKeys(all), name), listed(sortedKeys(all)))
		return
	}
	_, known := v.injected[id]
	switch {
	case needs && id == "":
		v.add(path+".fault", "%s needs the name of an injection%s", name, v.known())
	case !needs && id != "":
		v.add(path+".fault", "%s is not about an injection", name)
	case needs && !known:
		v.add(path+".fault", "nothing is injected as %q before this step%s", id, v.known())
	}
}

func (v *validator) known() string {
	if len(v.injected) == 0 {
		return ""
	}
	return "; there is " + listed(sortedKeys(v.injected))
}

func (v *validator) formula(path, formula string) {
	if formula == "" {
		v.add(path, "is missing: want a formula such as 2E + M, or a duration such as 8s")
		return
	}
	b, err := judge.ParseBound(formula, usual)
	switch {
	case err != nil:
		v.add(path, "%w", err)
	case b.Limit == 0:
		v.add(path, "%q is not a time above zero", formula)
	case b.Limit > longest:
		v.add(path, "%q is %s with default settings: want %s at most", formula, b.Limit, longest)
	}
}

func (v *validator) check(path string, c record.Check) {
	doc, err := judge.Find(c.Judge, v.judges...)
	if err != nil {
		v.add(path+".judge", "%w", err)
		return
	}
	switch {
	case c.Bound != "":
		v.formula(path+".bound", c.Bound)
	case doc.NeedsBound:
		v.add(path+".bound", "judge %s needs one, such as 2E + M", c.Judge)
	}
	if c.Fault == "" && doc.NeedsFault {
		v.add(path+".fault", "judge %s needs the name of an injection%s", c.Judge, v.known())
	}
	if _, ok := v.injected[c.Fault]; c.Fault != "" && !ok {
		v.add(path+".fault", "the timeline injects nothing as %q%s", c.Fault, v.known())
	}
	for _, name := range sortedKeys(c.Params) {
		if _, ok := doc.Params[name]; !ok {
			v.add(path+".params."+name, "judge %s has no such parameter: it accepts %s", c.Judge, listed(sortedKeys(doc.Params)))
			continue
		}
		if values := doc.Values[name]; values != nil && !slices.Contains(values, c.Params[name]) {
			v.add(path+".params."+name, "is %q: want %s", c.Params[name], strings.Join(values, " or "))
		}
		if name == "changes" || name == "interrupted" {
			v.changesOf(path+".params."+name, c.Params[name])
		}
		if name != "faults" {
			continue
		}
		for id := range strings.SplitSeq(c.Params[name], ",") {
			if _, ok := v.injected[strings.TrimSpace(id)]; !ok {
				v.add(path+".params.faults", "the timeline injects nothing as %q%s", strings.TrimSpace(id), v.known())
			}
		}
	}
}

func duration(formula string, s framework.Settings) (time.Duration, error) {
	b, err := judge.ParseBound(formula, s.Symbols())
	return b.Limit, err
}

func sortedKeys[K ~string, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }

func listed(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}
