package fault

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/record"
)

// clockShift moves the clocks of one component of a node, or of all of them. The dates of the
// components' own responses prove it, independently of how the clock was moved.
type clockShift struct {
	cluster  framework.Cluster
	fault    string
	target   Target
	shift    framework.ClockShift
	ttl      time.Duration
	shifter  framework.ClockShifter
	reporter framework.ProcessReporter
	clocks   []*movedClock

	handle string
	began  time.Time
}

// movedClock is the clock of one component.
type movedClock struct {
	*clockShift
	component framework.Component
	endpoint  framework.ServingEndpoint
	// undated reports that it serves no time, so that only the memory of its process shows its clock.
	undated bool
	// other is how it is shifted apart from this fault, at that time.
	other framework.ClockReading
	then  time.Time
	// with and without are how far its answers are from the expected ones with this fault and
	// without it.
	with, without residue
}

// onClock completes a fault that moves clocks.
func onClock(f *Fault, shift func(Request) (framework.ClockShift, error)) *Fault {
	f.Targets = []string{"node", "component"}
	f.Needs = []string{"ClockShifter", "EndpointLister", "ProcessReporter"}
	f.Effects = does(record.EffectClock)
	f.Prepare = func(r Request) (Inject, error) {
		x, err := r.clocks()
		if err != nil {
			return nil, err
		}
		x.shift, err = shift(r)
		return x.inject, err
	}
	return f
}

// clocks are those of the target. The caller sets their shift.
func (r Request) clocks() (*clockShift, error) {
	holder, of, err := r.holder()
	if err != nil {
		return nil, err
	}
	components := []framework.Component{r.Target.Component}
	if n, ok := holder.(framework.Node); ok && r.Target.Component == "" {
		components = n.Components()
	}
	x := &clockShift{cluster: r.Cluster, fault: r.Fault.Name, target: r.Target, ttl: r.TTL}
	if x.shifter, err = onTarget[framework.ClockShifter](r); err != nil {
		return nil, err
	}
	if x.reporter, err = onTarget[framework.ProcessReporter](r); err != nil {
		return nil, err
	}
	lister, err := onTarget[framework.EndpointLister](r)
	if err != nil {
		return nil, err
	}
	if why := x.shifter.ClockSupport(); why != nil {
		return nil, r.missing("ClockShifter", of, why.Error())
	}
	unread := fmt.Errorf("target %s has no component whose time could be read", r.Target.Asked)
	for _, component := range components {
		endpoints, err := lister.ServingEndpoints(component)
		i := slices.IndexFunc(endpoints, func(e framework.ServingEndpoint) bool { return e.Path != "" })
		if err == nil && i < 0 {
			err = errors.New("it serves no HTTP")
		}
		m := &movedClock{clockShift: x, component: component, undated: err != nil}
		if err == nil {
			m.endpoint = endpoints[i]
		} else if unread = fmt.Errorf("target %s: the time of %s cannot be read: %w", r.Target.Asked, component, err); r.Target.Component != "" {
			return nil, unread
		}
		x.clocks = append(x.clocks, m)
	}
	if !slices.ContainsFunc(x.clocks, (*movedClock).dated) {
		return nil, unread
	}
	return x, nil
}

// dated reports whether the component serves its time.
func (m *movedClock) dated() bool { return !m.undated }

// inject moves the clocks of the components that answer; one that does not run starts with the
// moved clock later, and shows nothing now.
func (x *clockShift) inject(ctx context.Context) (Injection, error) {
	components := make([]framework.Component, len(x.clocks))
	var asked []*movedClock
	var silent []string
	for i, m := range x.clocks {
		components[i] = m.component
		why, err := m.before(ctx)
		switch {
		case err != nil:
			return nil, fmt.Errorf("%s of %s: failed to read its clock before the fault: %w", x.fault, x.target.String(), err)
		case why != "":
			silent = append(silent, why)
		default:
			asked = append(asked, m)
		}
	}
	if !slices.ContainsFunc(asked, (*movedClock).dated) {
		return notInjected(x.target, "%s", strings.Join(silent, "; ")), nil
	}
	x.clocks = asked
	return attempt{
		target: x.target,
		what:   x.fault + " of " + x.target.String(),
		ask: func(ctx context.Context) (err error) {
			x.began = time.Now()
			x.handle, err = x.shifter.ShiftClock(ctx, components, x.shift, x.ttl)
			return err
		},
		effect: x.each((*movedClock).moved),
		lasts:  x.each((*movedClock).lasts),
		undo: func(ctx context.Context) error {
			if x.handle == "" {
				return nil // it was refused, so there is nothing to undo
			}
			for _, m := range x.clocks {
				m.forget()
			}
			return x.shifter.UnshiftClock(ctx, x.handle)
		},
		healed: x.each((*movedClock).back),
	}.injection(ctx)
}

// each checks all clocks in every round, in parallel: the results of their answers add up.
func (x *clockShift) each(l func(*movedClock, context.Context) (bool, string)) look {
	var looks []look
	for _, m := range x.clocks {
		looks = append(looks, func(ctx context.Context) (bool, string) { return l(m, ctx) })
	}
	return allAtOnce(looks)
}

// before records how the clock is already shifted. It says why the component cannot show a
// further shift, if so.
func (m *movedClock) before(ctx context.Context) (why string, err error) {
	p, err := m.reporter.Process(ctx, m.component)
	switch {
	case err != nil:
		return "", err
	case p.Ended():
		return fmt.Sprintf("%s does not run", m.component), nil
	case stopped(p):
		return fmt.Sprintf("%s is in state %s", m.component, p.State), nil
	}
	if m.dated() {
		if _, _, err := dateOf(ctx, m.endpoint); err != nil {
			return fmt.Sprintf("%s does not report the time: %v", m.component, err), nil
		}
	}
	m.other, err = m.shifter.ReadClock(ctx, m.component)
	m.then = time.Now()
	return "", err
}

// apart is how far this fault alone has moved the clock at t.
func (m *movedClock) apart(t time.Time) time.Duration {
	return m.shift.Offset + time.Duration(m.shift.Drift*float64(t.Sub(m.began)))
}

// otherwise is how far the clock has moved at t without this fault.
func (m *movedClock) otherwise(t time.Time) time.Duration {
	return m.other.Offset + time.Duration(m.other.Drift*float64(t.Sub(m.then)))
}

// visibleShift is the smallest shift that dates show for sure: they have a resolution of one
// second, and two answers enclose the moment when the second changes.
const visibleShift = 250 * time.Millisecond

// ask adds one more answer to the residues.
func (m *movedClock) ask(ctx context.Context) error {
	low, high, err := dateOf(ctx, m.endpoint)
	if err != nil {
		return err
	}
	now := time.Now()
	low, high = low-m.otherwise(now), high-m.otherwise(now)
	m.without.add(low, high)
	m.with.add(low-m.apart(now), high-m.apart(now))
	return nil
}

// forget discards the answers.
func (m *movedClock) forget() { m.with, m.without = residue{}, residue{} }

// moved checks whether the clock is moved as it should be.
func (m *movedClock) moved(ctx context.Context) (bool, string) {
	if m.undated {
		return m.remembers(ctx)
	}
	err := m.ask(ctx)
	if m.shift.Offset.Abs() > time.Minute && refusedAsExpired(err) {
		return true, fmt.Sprintf("%s refuses a valid client certificate as expired or not yet valid", m.component)
	}
	if err != nil {
		return false, fmt.Sprintf("%s does not report the time: %v", m.component, err)
	}
	if !m.with.none() {
		seen := m.without
		m.forget()
		return false, fmt.Sprintf("the Date headers of %s are %s, not %s", m.component, seen, toMillisecond(m.apart(time.Now())))
	}
	if !m.without.none() {
		return true, fmt.Sprintf("the Date headers of %s are %s", m.component, m.without)
	}
	// A drift shows in dates only later. Until then the process's memory must do.
	if m.shift.Offset != 0 || math.Abs(m.shift.Drift)*float64(effectLimit/2) >= float64(visibleShift) {
		return false, fmt.Sprintf("the Date headers of %s do not show yet that its clock is moved", m.component)
	}
	r, err := m.shifter.ReadClock(ctx, m.component)
	if err != nil {
		return false, err.Error()
	}
	gains := r.Drift - m.other.Drift
	if r.Untouched || math.Abs(gains-m.shift.Drift) > 1e-8 {
		return false, fmt.Sprintf("in the memory of %s its clock gains %s", m.component, ppm(gains))
	}
	return true, fmt.Sprintf("in the memory of %s its clock gains %s, which its Date headers cannot show this early; they are consistent with it", m.component, ppm(gains))
}

// remembers checks whether the memory of a process that serves no time says that its clock is moved.
func (m *movedClock) remembers(ctx context.Context) (bool, string) {
	r, err := m.shifter.ReadClock(ctx, m.component)
	if err != nil {
		return false, err.Error()
	}
	now := time.Now()
	moved := r.Offset - m.otherwise(now)
	seen := fmt.Sprintf("in the memory of %s, which serves no time, its clock is moved by %s and gains %s",
		m.component, toMillisecond(moved), ppm(r.Drift-m.other.Drift))
	slack := dateSlack + time.Duration(math.Abs(m.shift.Drift)*float64(time.Second)) // the requests take time
	return slices.Contains(r.Shifts, m.handle) && !r.Untouched && (moved-m.apart(now)).Abs() <= slack, seen
}

// lasts checks whether the clock of a running component is still moved: a reboot corrects it, and the
// clock of a process that has been restarted may not have been moved.
func (m *movedClock) lasts(ctx context.Context) (bool, string) {
	p, err := m.reporter.Process(ctx, m.component)
	if err != nil || p.Ended() || stopped(p) {
		return true, ""
	}
	r, err := m.shifter.ReadClock(ctx, m.component)
	moved := slices.Contains(r.Shifts, m.handle) && (!r.Untouched || len(r.Shifts) > 1) // two shifts may add up to none
	return err != nil || moved, fmt.Sprintf("the clock of %s was not moved", m.component)
}

// back checks whether the clock is as it would be without this fault. A component that another
// fault keeps down will start with the right one.
func (m *movedClock) back(ctx context.Context) (bool, string) {
	t := m.target
	t.Component = m.component
	return process{cluster: m.cluster, target: t, reporter: m.reporter}.orHeld(m.right)(ctx)
}

// right checks whether a running component has the clock that it would have without this fault.
func (m *movedClock) right(ctx context.Context) (bool, string) {
	p, err := m.reporter.Process(ctx, m.component)
	if err != nil || p.Ended() {
		return false, fmt.Sprintf("%s does not run, or its state could not be read: %v", m.component, err)
	}
	r, err := m.shifter.ReadClock(ctx, m.component)
	now := time.Now()
	switch {
	case err != nil:
		return false, err.Error()
	case slices.Contains(r.Shifts, m.handle):
		return false, fmt.Sprintf("the clock of %s is still moved", m.component)
	case len(r.Shifts) == 0 && !r.Untouched:
		return false, fmt.Sprintf("the code of %s for reading clocks is not the kernel's", m.component)
	case m.undated:
		return true, fmt.Sprintf("in the memory of %s this shift is gone", m.component)
	case stopped(p):
		return true, fmt.Sprintf("in the memory of %s this shift is gone; its Date headers cannot be read while another fault freezes it", m.component)
	}
	// Other faults may have started or ended.
	if was := m.otherwise(now); (was-r.Offset).Abs() > dateSlack || m.without.any && !m.without.none() {
		m.forget()
	}
	m.other, m.then = r, now
	if err := m.ask(ctx); err != nil {
		return false, fmt.Sprintf("%s does not report the time: %v", m.component, err)
	}
	apart := m.apart(now)
	switch {
	case !m.without.none():
		return false, fmt.Sprintf("the Date headers of %s are still %s", m.component, m.without)
	case apart.Abs() >= visibleShift && m.with.none():
		return false, fmt.Sprintf("the Date headers that %s sends still show the shift of its clock", m.component)
	case len(r.Shifts) > 0:
		return true, fmt.Sprintf("the Date headers of %s agree with the %d shifts that are left", m.component, len(r.Shifts))
	}
	return true, fmt.Sprintf("the Date headers of %s agree with the harness's clock, and its code for reading clocks is the kernel's", m.component)
}

func ppm(drift float64) string { return fmt.Sprintf("%.6gppm", drift*1e6) }
