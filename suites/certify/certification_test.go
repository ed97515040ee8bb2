package certify

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/clusters"
	"github.com/holdfast-ha/holdfast/clusters/local"
	"github.com/holdfast-ha/holdfast/framework/engine"
	"github.com/holdfast-ha/holdfast/framework/record"
	"github.com/holdfast-ha/holdfast/reports/bundle"
	"github.com/holdfast-ha/holdfast/scenarios"
	"github.com/holdfast-ha/holdfast/suites/run"
)

func testKey(t testing.TB) *bundle.Key {
	private, _, err := bundle.GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	key, err := bundle.ParseKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// certification is a results directory with real but nearly empty record files, so that every
// verdict is inconclusive.
type certification struct {
	dir  string
	plan *run.Plan
	tool Tool
	// entries is the approximate number of entries per record.
	entries int
}

func newCertification(t testing.TB, ids ...string) *certification {
	return newCertificationOf(t, Breaking, 0, ids...)
}

func newCertificationOf(t testing.TB, profile string, entries int, ids ...string) *certification {
	spec := clusters.Default()
	spec.SetNodes(3)
	return newCertificationOn(t, spec, Scenarios(ids, profile), profile, entries, ids...)
}

// newCertificationOn is newCertificationOf for a cluster and the chosen scenarios of the rows.
func newCertificationOn(t testing.TB, spec *clusters.Cluster, chosen []*scenarios.Scenario, profile string, entries int, ids ...string) *certification {
	p := run.New(local.Provider{}, spec, run.InTurn(spec, chosen, Turns, nil), 7, "v1")
	p.Rows, p.Profile = ids, profile
	if err := p.Divide(local.Provider{}, 1); err != nil {
		t.Fatal(err)
	}
	c := &certification{dir: t.TempDir(), plan: p, tool: theseRules(), entries: entries}
	c.tool.Version = "v1"
	for _, s := range p.Scenarios {
		if s.NotFor(spec.Size()) == "" {
			c.record(t, s, s.Metadata.Name, func(*record.Meta) {})
		}
	}
	p.Ended = time.Now()
	if err := p.Save(c.dir); err != nil {
		t.Fatal(err)
	}
	return c
}

// record makes the record of a scenario, with one observation.
func (c *certification) record(t testing.TB, s *scenarios.Scenario, observation string, change func(*record.Meta)) {
	c.recordOf(t, s, change, func(w *record.Writer) error {
		// At the same time in each record, as in a copy.
		return errors.Join(w.Append(record.KindPhase, record.Phase{Name: observation}), c.traffic(w, observation))
	})
}

// recordOf makes the record of a scenario with the entries that write appends.
func (c *certification) recordOf(t testing.TB, s *scenarios.Scenario, change func(*record.Meta), write func(*record.Writer) error) {
	dir := record.Dir(c.dir, s.Metadata.Name)
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	settings, err := clusters.Settings(c.plan.Part(s).Cluster)
	if err != nil {
		t.Fatal(err)
	}
	meta := record.Meta{Run: c.plan.Run, Scenario: s.Metadata.Name, Harness: c.plan.Harness, Provider: c.plan.Provider, Checks: s.Experiment().Checks,
		Seed: engine.SeedOf(c.plan.Seed, s.Metadata.Name), Settings: settings.Symbols(), Versions: map[string]map[string]string{},
		Nodes: []record.Node{{Name: "node-1", Address: "10.0.0.1"}, {Name: "node-2", Address: "10.0.0.2"}, {Name: "node-3", Address: "10.0.0.3"}}}
	meta.Elections = map[string]map[string]time.Duration{}
	for component, e := range settings.Elections {
		meta.Elections[string(component)] = e.Symbols()
	}
	for i, n := range meta.Nodes {
		meta.Versions[n.Name] = map[string]string{"kube-apiserver": c.plan.Part(s).Cluster.Node(i).KubernetesVersion}
	}
	change(&meta)
	w, err := record.Create(dir, meta)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(write(w), w.Close(record.End{})); err != nil {
		t.Fatal(err)
	}
}

// traffic records what an experiment records of its clients: writes and reads of registers, each
// with two probes.
func (c *certification) traffic(w *record.Writer, name string) error {
	for i := range c.entries / 3 {
		entrance := fmt.Sprintf("node-%d", i%3+1)
		now := record.Nanos(i) * record.Nanos(20*time.Millisecond)
		op := record.Op{Client: "client-" + entrance, Entrance: entrance, API: "kubernetes", Type: record.OpGet, Key: fmt.Sprintf("registers/%s-%d", name, i/2%20),
			Call: now, Return: now + record.Nanos(rand.IntN(9e6)), Outcome: record.OK, Value: fmt.Sprintf("%s/%x", entrance, i/2), Revision: fmt.Sprint(1000 + i/2)}
		if i%2 == 0 {
			op.Type = record.OpUpdate
		}
		probe := record.Probe{Entrance: entrance, Kind: record.ProbeKinds()[i%4], Start: now, End: now + record.Nanos(rand.IntN(9e6)), OK: true, Status: 200}
		for _, err := range []error{w.Append(record.KindOp, op), w.Append(record.KindProbe, probe), w.Append(record.KindProbe, probe)} {
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// bundle signs the results.
func (c *certification) bundle(t testing.TB, key *bundle.Key) string {
	v, err := run.Judge(c.dir)
	if err != nil {
		t.Fatal(err)
	}
	file, err := Bundle(c.dir, v, Judge(v), c.tool, key)
	if err != nil {
		t.Fatal(err)
	}
	return file
}
