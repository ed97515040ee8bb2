package fault

import (
	"context"

	"github.com/holdfast-ha/holdfast/framework"
)

// DNSDead makes the name service fall silent.
var DNSDead Fault = dnsDead{}

type dnsDead struct{}

func (dnsDead) Name() string { return "dns-dead" }

func (dnsDead) Doc() Doc {
	return Doc{
		Summary: "makes the name service leave the questions of hosts without an answer",
		Targets: namesTargets,
		Params:  map[string]string{"names": namesParam},
		Needs:   []string{"NameServiceFaulter"},
		Example: "harness",
	}
}

func (f dnsDead) Check(c framework.Cluster, t Target, p Params) error {
	_, err := f.misleading(c, t, p)
	return err
}

func (f dnsDead) Inject(ctx context.Context, c framework.Cluster, t Target, p Params) (Injection, error) {
	m, err := f.misleading(c, t, p)
	if err != nil {
		return nil, err
	}
	return m.inject(ctx, "silence about names for "+t.String())
}

func (f dnsDead) misleading(c framework.Cluster, t Target, p Params) (*misleading, error) {
	m, err := newMisleading(f, c, t, p)
	if err != nil {
		return nil, err
	}
	m.disturb.Silent, m.led = true, gaveUp
	return m, nil
}
