package fault

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-ha/holdfast/framework"
)

// Pressure is created in one of two ways: the kernel limits the target itself, by a cgroup, or a
// load process beside it uses up the resource.
const (
	byAuto   = "auto"
	byCgroup = "cgroup"
	byLoad   = "load"
)

var byParam = choiceParam("by", "how: cgroup limits the target itself, load starts a process beside it; auto: the one whose parameters are given; if those of both or of neither are, cgroup where the kernel lets the harness create control groups, otherwise load; "+
	"the proof and the record say which was used", byAuto, byCgroup, byLoad)

// probeTTL is the lifetime of the probe that shows that a limit is enforced, if it is not stopped
// before.
const probeTTL = 10 * time.Second

// way is how pressure is created on a target.
type way struct {
	by      string
	limited []*limited // for byCgroup
	why     string     // it is a load, if none was requested
}

// noCgroup describes why a load process is used if none was requested.
func (w way) noCgroup() string {
	if w.why == "" {
		return ""
	}
	return "; by load, not by cgroup: " + w.why
}

// limited is the processes of one machine that are put under a limit.
type limited struct {
	*burden
	limiter    framework.Limiter
	components []framework.Component // empty for the whole machine
	limit      string                // its handle; empty until it was requested
	began      framework.LimitReading
	last       string // the last observation before it was stopped
}

// chooseWay decides how pressure is created. Of the fault's parameters, those named in ofCgroup
// and ofLoad apply to one way only.
func (r Request) chooseWay(machines []*burden, want framework.Limit, ofCgroup, ofLoad []string) (way, error) {
	by := Value[string](r, "by")
	given := func(names []string) string {
		for _, name := range names {
			if r.Values[name] != "" {
				return name
			}
		}
		return ""
	}
	forCgroup, forLoad := given(ofCgroup), given(ofLoad)
	switch {
	case by == byCgroup && forLoad != "":
		return way{}, fmt.Errorf("parameter %s: it is for by=load, not for by=cgroup", forLoad)
	case by == byLoad && forCgroup != "":
		return way{}, fmt.Errorf("parameter %s: it is for by=cgroup, not for by=load", forCgroup)
	case by == byLoad, by == byAuto && forLoad != "" && forCgroup == "":
		return way{by: byLoad}, nil
	}
	all, err := r.limited(machines, want)
	var missing *MissingAbility
	switch {
	case err == nil:
		return way{by: byCgroup, limited: all}, nil
	case by == byAuto && errors.As(err, &missing) && (forCgroup == "" || forLoad != ""):
		return way{by: byLoad, why: cmp.Or(missing.Why, "the provider has no control groups")}, nil
	}
	return way{}, err
}

// limited returns the processes of the target to put under a limit.
func (r Request) limited(machines []*burden, want framework.Limit) (all []*limited, err error) {
	for _, b := range machines {
		l := &limited{burden: b}
		what := r.what() + " by=cgroup"
		if l.limiter, err = Ability[framework.Limiter](b.presser, b.name, what); err != nil {
			return nil, err
		}
		why := l.limiter.LimitSupport(want)
		if r.Target.Component == framework.NodeAgent {
			why = errors.New("the limit would also apply to what the node agent starts: target the whole node")
		}
		if why != nil {
			return nil, &MissingAbility{Ability: "Limiter", Of: b.name, For: what, Why: why.Error()}
		}
		if c := r.Target.Component; c != "" {
			l.components = []framework.Component{c}
		}
		all = append(all, l)
	}
	return all, nil
}

// inject puts the target under a limit. probe is a load that exceeds it: the target itself may be
// idle, and the kernel's enforcement shows only under demand. It is stopped once that was seen.
func (w way) inject(ctx context.Context, r Request, want framework.Limit, probe framework.Pressure) (Injection, error) {
	if r.Target.Component != "" {
		p, err := r.process()
		if err != nil {
			return nil, err
		}
		if _, none, err := p.before(ctx); err != nil || none != nil {
			return none, err
		}
	}
	var shares []share
	for _, l := range w.limited {
		shares = append(shares, share{l.node, attempt{
			what: fmt.Sprintf("%s on %s by cgroup", r.Fault.Name, l.name),
			ask: func(ctx context.Context) (err error) {
				if l.limit, err = l.limiter.Limit(ctx, l.components, want, r.TTL); err != nil {
					return err
				}
				if l.began, err = l.limiter.ReadLimit(ctx, l.limit); err != nil {
					return err
				}
				within := probe
				within.Within = l.limit
				l.handle, err = l.presser.Press(ctx, within, min(r.TTL, probeTTL))
				return err
			},
			effect: func(ctx context.Context) (bool, string) { return l.kept(ctx, want) },
			lasts: func(ctx context.Context) (bool, string) {
				r, err := l.limiter.ReadLimit(ctx, l.limit)
				if err == nil && r.Active && len(r.Outside) > 0 { // since they were started
					return false, fmt.Sprintf("processes %v of %s were not under its limit", r.Outside, l.whose())
				}
				return err != nil || r.Active, fmt.Sprintf("the limit of %s was gone", l.whose())
			},
			undo:     l.lift,
			healed:   l.lifted,
			patience: pressLimit,
		}})
	}
	return chosen(byCgroup)(onNodes(ctx, r.Target, shares))
}

// chosen records on an injection how its pressure is created.
func chosen(by string) func(Injection, error) (Injection, error) {
	return func(i Injection, err error) (Injection, error) {
		if own, ok := i.(*injection); ok {
			own.chosen = map[string]string{"by": by}
		}
		return i, err
	}
}

// kept checks whether the kernel reports that it enforces the limit, and whether all processes
// are under it.
func (l *limited) kept(ctx context.Context, want framework.Limit) (bool, string) {
	r, err := l.limiter.ReadLimit(ctx, l.limit)
	switch {
	case err != nil:
		return false, fmt.Sprintf("the limit of %s cannot be read: %v", l.whose(), err)
	case !r.Active:
		return false, fmt.Sprintf("no limit is active on %s", l.whose())
	case len(r.Outside) > 0:
		return false, fmt.Sprintf("processes %v of %s are not in control group %s", r.Outside, l.whose(), r.Group)
	case r.Inside == 0:
		return false, fmt.Sprintf("control group %s has no processes of %s", r.Group, l.whose())
	}
	seen := fmt.Sprintf("by cgroup %s, which has all processes of %s (%d): %s", r.Group, l.whose(), r.Inside, l.words(r))
	if want.CPU > 0 && (r.CPU == 0 || r.CPU > want.CPU+0.01 || r.Throttled <= l.began.Throttled) ||
		want.Memory > 0 && (r.Memory == 0 || r.Memory > want.Memory || r.MemoryHits <= l.began.MemoryHits) {
		return false, seen + ", whose effect does not show yet"
	}
	if err := l.presser.Relieve(ctx, l.handle); err != nil {
		return false, fmt.Sprintf("%s; but the probe that showed it cannot be stopped: %v", seen, err)
	}
	return true, seen + ", including a probe of the harness that asked for more and has since exited"
}

func (l *limited) whose() string {
	if len(l.components) == 0 {
		return l.name
	}
	names := framework.Names(l.components, func(c framework.Component) string { return string(c) })
	return strings.Join(names, ", ") + " on " + strings.TrimPrefix(l.name, "node ")
}

// words describes what the kernel has counted since the limit started.
func (l *limited) words(r framework.LimitReading) string {
	if r.CPU > 0 {
		return fmt.Sprintf("%g%% of a CPU, throttled in %d of %d periods, for %s",
			r.CPU, r.Throttled-l.began.Throttled, r.Periods-l.began.Periods, (r.ThrottledFor - l.began.ThrottledFor).Round(time.Millisecond))
	}
	return fmt.Sprintf("%s of memory, limit reached %d times, %s in use, %d processes killed by the kernel",
		quantity(r.Memory), r.MemoryHits-l.began.MemoryHits, quantity(r.MemoryUsed), r.OOMKills-l.began.OOMKills)
}

// lift removes the limit, and the probe if it still runs.
func (l *limited) lift(ctx context.Context) error {
	err := ifGiven(&l.handle, l.presser.Relieve)(ctx)
	if l.limit == "" {
		return err
	}
	if r, err := l.limiter.ReadLimit(ctx, l.limit); err == nil && r.Active {
		l.last = "; until then: " + l.words(r)
	}
	return errors.Join(err, l.limiter.Unlimit(ctx, l.limit))
}

// lifted checks whether nothing is left of the limit.
func (l *limited) lifted(ctx context.Context) (bool, string) {
	r, err := l.limiter.ReadLimit(ctx, l.limit)
	switch {
	case err != nil:
		return false, fmt.Sprintf("the limit of %s cannot be read: %v", l.whose(), err)
	case r.Active:
		return false, fmt.Sprintf("%s is still under a limit: %s", l.whose(), l.words(r))
	case len(r.Left) > 0:
		return false, fmt.Sprintf("%s still has control groups without a limit: %s", l.name, strings.Join(slices.Sorted(slices.Values(r.Left)), ", "))
	}
	return true, fmt.Sprintf("the limit of %s is gone, and its control group%s", l.whose(), l.last)
}
