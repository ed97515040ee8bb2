package fault

import (
	"context"
	"fmt"
	"time"

	"github.com/holdfast-ha/holdfast/framework"
)

// CrashLoop kills a component again and again.
var CrashLoop Fault = crashLoop{}

type crashLoop struct{}

const (
	afterUnset = time.Second
	afterHigh  = time.Minute
	// backOffLimit is how long a process watcher may wait before the start
	// that the second kill needs; the longest back-off of the local
	// provider is 30 s, and the kubelet's first one 10 s.
	backOffLimit = 45 * time.Second
	// outliveMargin is how much longer than after a process must have lived
	// to show that nothing kills it any more.
	outliveMargin = 500 * time.Millisecond
)

func (crashLoop) Name() string { return "crash-loop" }

func (crashLoop) Doc() Doc {
	return Doc{
		Summary: "kills a component, and kills it again after each start; its process watcher backs off as it always does",
		Targets: processTargets(),
		Params:  map[string]string{"after": fmt.Sprintf("the time from each start to the kill: a duration from 0s to %s, shorter than the time to live; default %s", afterHigh, afterUnset)},
		Needs:   []string{"CrashLooper", "ProcessReporter", "EtcdAccess (for etcd)"},
		Example: "scheduler/active after=500ms",
	}
}

func (f crashLoop) Check(c framework.Cluster, t Target, p Params) error {
	_, _, _, err := f.parts(c, t, p)
	return err
}

func (f crashLoop) parts(c framework.Cluster, t Target, p Params) (process, framework.CrashLooper, time.Duration, error) {
	fail := func(err error) (process, framework.CrashLooper, time.Duration, error) { return process{}, nil, 0, err }
	if err := checkParams(f, p); err != nil {
		return fail(err)
	}
	after, err := durationParam(f, p, "after", afterUnset, 0, afterHigh)
	if err != nil {
		return fail(err)
	}
	if after >= p.TTL {
		return fail(badParam(f, p, "after", "shorter than the time to live, %s (default %s): the second kill is the proof", p.TTL, afterUnset))
	}
	holder, of, err := componentHolder(f, c, t)
	if err != nil {
		return fail(err)
	}
	looper, err := ability[framework.CrashLooper](holder, of, "fault crash-loop")
	if err != nil {
		return fail(err)
	}
	proc, err := newProcess(f, c, t)
	return proc, looper, after, err
}

func (f crashLoop) Inject(ctx context.Context, c framework.Cluster, t Target, p Params) (Injection, error) {
	proc, looper, after, err := f.parts(c, t, p)
	if err != nil {
		return nil, err
	}
	old, absent, err := proc.before(ctx)
	switch {
	case err != nil:
		return nil, err
	case absent != "":
		return notInjected(t, "%s", absent), nil
	case old.CrashLooped:
		return notInjected(t, "%s was in a crash loop already", t.String()), nil
	}
	return attempt{
		target:   t,
		what:     "crash loop of " + t.String(),
		ask:      func(ctx context.Context) error { return looper.CrashLoop(ctx, t.Component, after, p.TTL) },
		effect:   proc.killedTwice(old),
		undo:     func(ctx context.Context) error { return looper.EndCrashLoop(ctx, t.Component) },
		healed:   proc.orHeld(all(proc.outlives(after+outliveMargin), proc.runs)),
		patience: 2*after + backOffLimit,
	}.oneRequest().injection(ctx)
}

// killedTwice looks whether the process and at least one that took its place
// were killed.
func (p process) killedTwice(old framework.Process) look {
	return func(ctx context.Context) (bool, string) {
		now, err := p.reporter.Process(ctx, p.target.Component)
		if err != nil {
			return false, fmt.Sprintf("%s cannot be asked for: %v", p.target.String(), err)
		}
		if same(now, old) && !ended(now) {
			return false, fmt.Sprintf("%s still runs as %s", p.target.String(), id(old))
		}
		deaths := now.Restarts - old.Restarts
		if ended(now) {
			deaths++
		}
		return deaths >= 2 && now.LastExit == killedExit, fmt.Sprintf("%s, %s at first, has ended %d times%s", p.target.String(), id(old), deaths, lastExit(now))
	}
}

// killedExit is how a process ends on SIGKILL, in the words of os.ProcessState.
const killedExit = "signal: killed"
