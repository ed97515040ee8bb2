package suites

import (
	"context"
	"strings"
	"testing"

	"github.com/holdfast-ha/holdfast/clusters"
	"github.com/holdfast-ha/holdfast/clusters/local"
	"github.com/holdfast-ha/holdfast/clusters/release"
	"github.com/holdfast-ha/holdfast/framework/engine"
	"github.com/holdfast-ha/holdfast/framework/judge"
	"github.com/holdfast-ha/holdfast/framework/record"
	"github.com/holdfast-ha/holdfast/scenarios"
)

// TestFaultWithoutEffect expects no verdict where a fault could not do anything.
// Violations of guarantees are planted in package selftest.
func TestFaultWithoutEffect(t *testing.T) {
	if testing.Short() {
		t.Skip("makes clusters")
	}
	results := runOn(t)
	for range 2 {
		if len(Starved(results)) == 0 {
			break
		}
		t.Log("the machine was too busy to say anything: once more")
		results = runOn(t)
	}
	for _, r := range results {
		if strings.HasPrefix(r.Requirement, "RUN/") {
			continue
		}
		if r.Verdict != judge.Inconclusive || !strings.Contains(r.Sentence, "proof") {
			t.Errorf("%s: %s, want %s for want of proof: %s", r.Requirement, r.Verdict, judge.Inconclusive, r.Sentence)
		}
	}
}

// offAndIsolated isolates a member whose node has no power: its fault cannot
// take effect.
const offAndIsolated = `
apiVersion: holdfast.dev/v1alpha1
kind: Scenario
metadata: {name: off-and-isolated}
spec:
  timeline:
  - wait: 4s
  - inject: {fault: power-off, target: node/3, as: off}
  - inject: {fault: isolate-etcd, target: etcd/3, as: cut}
  - wait: 2s
  requirements:
  - {id: HA-QR-002, judge: isolated-member, fault: cut, bound: 2E + M}
`

func runOn(t *testing.T) []judge.Result {
	t.Helper()
	spec := clusters.Default()
	for _, b := range local.Binaries(spec) {
		if _, err := release.Lookup(b.Product, b.Version, release.Options{}); err != nil {
			t.Skipf("run `holdfast fetch %s %s` first: %v", b.Product, b.Version, err)
		}
	}
	s, err := scenarios.Parse("planted", []byte(offAndIsolated))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	c, err := local.Create(t.Context(), spec, local.Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(context.Background())
	if err := engine.Run(t.Context(), c, s.Experiment(), engine.Options{Dir: dir + "/record", Run: "without-effect",
		Seed: 1, Harness: "test", Provider: "local", Progress: func(line string) { t.Log(line) }}); err != nil {
		t.Fatal(err)
	}
	run, err := record.Read(dir + "/record")
	if err != nil {
		t.Fatal(err)
	}
	return judge.Evaluate(run)
}
