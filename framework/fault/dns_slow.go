package fault

import (
	"context"
	"time"

	"github.com/holdfast-ha/holdfast/framework"
)

// DNSSlow makes the name service take its time.
var DNSSlow Fault = dnsSlow{}

type dnsSlow struct{}

func (dnsSlow) Name() string { return "dns-slow" }

func (dnsSlow) Doc() Doc {
	return Doc{
		Summary: "makes the name service hold back its answers to hosts; programs that do not wait as long get none",
		Targets: namesTargets,
		Params: map[string]string{
			"names": namesParam,
			"delay": "how long each answer is held back, a duration from 10ms to 30s; default 500ms",
		},
		Needs:   []string{"NameServiceFaulter"},
		Example: "workers delay=500ms",
	}
}

func (f dnsSlow) Check(c framework.Cluster, t Target, p Params) error {
	_, err := f.misleading(c, t, p)
	return err
}

func (f dnsSlow) Inject(ctx context.Context, c framework.Cluster, t Target, p Params) (Injection, error) {
	m, err := f.misleading(c, t, p)
	if err != nil {
		return nil, err
	}
	return m.inject(ctx, "slow names for "+t.String())
}

func (f dnsSlow) misleading(c framework.Cluster, t Target, p Params) (*misleading, error) {
	m, err := newMisleading(f, c, t, p)
	if err != nil {
		return nil, err
	}
	delay, err := durationParam(f, p, "delay", 500*time.Millisecond, 10*time.Millisecond, 30*time.Second)
	m.disturb.Delay = delay
	m.led = func(l framework.Lookup) bool { return l.Took >= delay || gaveUp(l) }
	return m, err
}
