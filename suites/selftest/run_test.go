package selftest

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/holdfast-ha/holdfast/clusters/local/tamper"
	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/engine"
	"github.com/holdfast-ha/holdfast/framework/record"
)

// bare is a cluster that has only nodes.
type bare struct {
	framework.Cluster
	number int // in the order of creation
	nodes  []string
	closed *[]int
}

type bareNode struct {
	framework.Node
	name string
}

func (n bareNode) Name() string { return n.name }

func (c *bare) Nodes() (all []framework.Node) {
	for _, name := range c.nodes {
		all = append(all, bareNode{name: name})
	}
	return all
}

func (c *bare) Tamper(string) (*tamper.Client, error) { return nil, errors.New("it has no proxies") }

func (c *bare) Close(context.Context) error {
	*c.closed = append(*c.closed, c.number)
	return nil
}

// TestLeftChanged shows that a run uses the cluster of the previous one, and a new one if that
// was left changed or the run ended early.
func TestLeftChanged(t *testing.T) {
	steady := func(ok bool) func(*record.Writer, *bare) error {
		return func(w *record.Writer, _ *bare) error {
			return w.Append(record.KindSteady, record.Steady{Phase: "after", OK: ok})
		}
	}
	unhealed := func(w *record.Writer, c *bare) error {
		return errors.Join(w.Append(record.KindFault, record.Fault{ID: "kill", Phase: record.FaultInjected, Proven: true}), steady(true)(w, c))
	}
	fewer := func(w *record.Writer, c *bare) error {
		c.nodes = c.nodes[1:]
		return steady(true)(w, c)
	}
	broken := func(*record.Writer, *bare) error { return errors.New("it ended early") }
	runs := []struct {
		leaves func(*record.Writer, *bare) error
		on     int // the expected cluster
	}{
		{steady(true), 1},
		{steady(true), 1},
		{unhealed, 1},
		{steady(false), 2},
		{fewer, 3},
		{broken, 4}, // and once more, as it gave no verdict
		{steady(true), 5},
		{steady(true), 5},
	}
	var found, closed []int
	made := 0
	r := &runner{env: Env{Dir: t.TempDir(), Progress: func(line string) { t.Log(line) }}, tries: 2}
	r.make = func(context.Context) (cluster, error) {
		made++
		return &bare{number: made, nodes: []string{"node-1", "node-2"}, closed: &closed}, nil
	}
	r.run = func(_ context.Context, c framework.Cluster, _ engine.Experiment, o engine.Options) error {
		on := c.(*bare)
		found = append(found, on.number)
		w, err := record.Create(o.Dir, record.Meta{Version: record.Version, Run: "test", Scenario: "test", Nodes: []record.Node{{Name: "node-1"}, {Name: "node-2"}}})
		if err != nil {
			return err
		}
		return errors.Join(runs[len(found)-1].leaves(w, on), w.Close(record.End{}))
	}
	for len(found) < len(runs) {
		if o := r.unit(t.Context(), Unit{Scenario: "traffic"}); o.Problem != "" || o.Unclear {
			t.Fatalf("%+v", o)
		}
	}
	var want []int
	for _, run := range runs {
		want = append(want, run.on)
	}
	if !slices.Equal(found, want) {
		t.Errorf("the runs were on clusters %v, want %v", found, want)
	}
	r.close(t.Context())
	r.close(t.Context())
	if !slices.Equal(closed, []int{1, 2, 3, 4, 5}) {
		t.Errorf("clusters %v were closed, of %d", closed, made)
	}

	// A cluster that cannot be created is retried.
	r.make = func(context.Context) (cluster, error) { return nil, errors.New("no room") }
	if o := r.unit(t.Context(), Unit{Scenario: "traffic"}); o.Problem != "no room" || !o.Unclear || o.Tries != 2 || len(found) != len(runs) {
		t.Errorf("without a cluster: %+v", o)
	}
	r.close(t.Context())
}

// TestOwnCluster shows that no unit runs on the cluster of a scenario that changes its own.
func TestOwnCluster(t *testing.T) {
	var found, closed []int
	made := 0
	r := &runner{env: Env{Dir: t.TempDir(), Progress: func(line string) { t.Log(line) }}, tries: 1}
	r.make = func(context.Context) (cluster, error) {
		made++
		return &bare{number: made, nodes: []string{"node-1"}, closed: &closed}, nil
	}
	r.run = func(_ context.Context, c framework.Cluster, _ engine.Experiment, o engine.Options) error {
		found = append(found, c.(*bare).number)
		w, err := record.Create(o.Dir, record.Meta{Version: record.Version, Run: "test", Scenario: "test", Nodes: []record.Node{{Name: "node-1"}}})
		if err != nil {
			return err
		}
		return errors.Join(w.Append(record.KindSteady, record.Steady{Phase: "after", OK: true}), w.Close(record.End{}))
	}
	for _, scenario := range []string{"traffic", catalogue + "ca-replaced", catalogue + "upgrade-one-by-one", "traffic", "traffic"} {
		if o := r.unit(t.Context(), Unit{Scenario: scenario}); o.Problem != "" {
			t.Fatalf("%+v", o)
		}
	}
	r.close(t.Context())
	if want := []int{1, 1, 2, 3, 3}; !slices.Equal(found, want) {
		t.Errorf("the runs were on clusters %v, want %v", found, want)
	}
	if want := []int{1, 2, 3}; !slices.Equal(closed, want) {
		t.Errorf("clusters %v were closed, want %v", closed, want)
	}
}
