package fault

import (
	"context"
	"fmt"
	"time"

	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/record"
)

const (
	afterUnset = time.Second
	afterHigh  = time.Minute
	// backOffLimit is how long a process watcher may wait before the restart that the second kill
	// needs; the longest back-off of the local provider is 30 s, and the kubelet's first one 10
	// s.
	backOffLimit = 45 * time.Second
	// outliveMargin is how much longer than after a process must have lived to show that the
	// crash loop is over.
	outliveMargin = 500 * time.Millisecond
)

// CrashLoop kills a component repeatedly.
var CrashLoop = &Fault{
	Name:    "crash-loop",
	Summary: "kills a component, and kills it again after each start; its process watcher backs off as usual",
	Targets: processTargets,
	Params:  []Param{durationParam("after", "the time from each start to the kill, shorter than the time to live", afterUnset, 0, afterHigh)},
	Needs:   []string{"CrashLooper", "ProcessReporter", "EtcdAccess (for etcd)"},
	Example: "scheduler/active after=500ms",
	Effects: does(record.EffectRestarted),
	takes:   func(r Request) time.Duration { return 2 * Value[time.Duration](r, "after") },
	Prepare: func(r Request) (Inject, error) {
		after := Value[time.Duration](r, "after")
		if after >= r.TTL {
			return nil, r.bad("after", "shorter than the time to live, %s (default %s): the second kill is the proof", r.TTL, afterUnset)
		}
		looper, err := onTarget[framework.CrashLooper](r)
		if err != nil {
			return nil, err
		}
		proc, err := r.process()
		return func(ctx context.Context) (Injection, error) { return proc.crashLoop(ctx, looper, after, r.TTL) }, err
	},
}

func (p process) crashLoop(ctx context.Context, looper framework.CrashLooper, after, ttl time.Duration) (Injection, error) {
	t := p.target
	old, none, err := p.before(ctx)
	switch {
	case err != nil || none != nil:
		return none, err
	case old.CrashLooped:
		return notInjected(t, "%s was already in a crash loop", t.String()), nil
	}
	return attempt{
		target: t,
		what:   "crash loop of " + t.String(),
		ask:    func(ctx context.Context) error { return looper.CrashLoop(ctx, t.Component, after, ttl) },
		effect: p.killedTwice(old),
		lasts: p.orHeld(p.shows(func(now framework.Process) (bool, string) { // a reboot of the node ends it
			return now.CrashLooped, fmt.Sprintf("the crash loop of %s was over", t.String())
		})),
		undo:     func(ctx context.Context) error { return looper.EndCrashLoop(ctx, t.Component) },
		healed:   p.orHeld(all(p.outlives(after+outliveMargin), p.runs)),
		patience: 2*after + backOffLimit,
	}.oneRequest().injection(ctx)
}

// killedTwice checks whether the process and at least one successor were killed.
func (p process) killedTwice(old framework.Process) look {
	return p.shows(func(now framework.Process) (bool, string) {
		if same(now, old) && !now.Ended() {
			return false, fmt.Sprintf("%s still runs as %s", p.target.String(), old.ID())
		}
		deaths := now.Restarts - old.Restarts
		if now.Ended() {
			deaths++
		}
		return deaths >= 2 && now.LastExit == killedExit, fmt.Sprintf("%s, %s at first, exited %d times%s", p.target.String(), old.ID(), deaths, lastExit(now))
	})
}

// killedExit is the exit of a process on SIGKILL, as os.ProcessState describes it.
const killedExit = "signal: killed"
