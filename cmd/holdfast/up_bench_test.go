package main

import (
	"errors"
	"testing"
	"time"
)

// BenchmarkUp measures `holdfast up --wait` of three control-plane nodes with each provider in
// turn: s/PROVIDER is the time until the cluster is ready, and kind/local the ratio of the two.
// The engine and its images exist before. If there is no engine and none can be started, kind is
// left out.
func BenchmarkUp(b *testing.B) {
	c := commandLine{t: b}
	run := func(args ...string) error {
		out, err := c.command(args...).CombinedOutput()
		if err != nil {
			err = errors.Join(err, errors.New(string(out)))
		}
		return err
	}
	providers := []string{"local", "kind"}
	if err := run("kind", "image"); err != nil {
		b.Logf("kind is left out: %v", err)
		providers = providers[:1]
	}
	took := map[string]time.Duration{}
	b.ResetTimer()
	for b.Loop() {
		for _, p := range providers {
			name := "bench-" + p
			began := time.Now()
			err := run("up", "--provider", p, "--name", name, "--wait")
			took[p] += time.Since(began)
			if down := run("down", "--name", name); err == nil {
				err = down
			}
			if err != nil {
				b.Fatalf("%s: %v", p, err)
			}
		}
	}
	b.ReportMetric(0, "ns/op")
	for _, p := range providers {
		b.ReportMetric(took[p].Seconds()/float64(b.N), "s/"+p)
	}
	if len(providers) == 2 {
		b.ReportMetric(float64(took["kind"])/float64(took["local"]), "kind/local")
	}
}
