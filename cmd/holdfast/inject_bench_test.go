package main

import (
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/framework/record"
)

// injections is how many faults a run of BenchmarkInject injects.
const injections = 30

// BenchmarkInject runs a scenario that freezes and thaws schedulers with each provider in turn:
// clusters that holdfast makes (local, kind), and one that exists and is reached over SSH
// (remote). ms/PROVIDER-p50 and -p99 are the times from a call to the proof of its effect,
// s/PROVIDER the time from the start of the command to the first effect, and MB/node what a
// remote node received during the run, including the agent. Without a Docker engine, kind is
// left out.
func BenchmarkInject(b *testing.B) {
	b.Setenv(clusterTests, "1")
	steps := "- action: {name: ready}\n"
	for i := range injections {
		steps += fmt.Sprintf("  - inject: {fault: freeze, target: scheduler/%d, as: f%d}\n  - heal: f%d\n", i%3+1, i, i)
	}
	text := strings.NewReplacer("NAME", "injections", "CLUSTER", "{}", "- action: {name: ready}\n  - wait: 12s\n", steps).Replace(tinyScenario)
	for b.Loop() {
		f := newForeign(b)
		f.consent("process")
		file := f.write("injections.yaml", text)
		run := func(provider string, args ...string) (time.Duration, bool) {
			dir := filepath.Join(f.dir, provider)
			began := time.Now()
			if out, code := f.try(append(args, "--out", dir, "-f", file)...); code != exitPass && code != exitInconclusive {
				b.Errorf("%s: exit code %d\n%s", provider, code, out)
				return 0, false
			}
			seen, err := record.Read(record.Dir(dir, "injections"))
			if err != nil {
				b.Fatal(err)
			}
			var took []float64
			first := time.Duration(0)
			for _, one := range seen.Faults {
				if one.V.Phase != record.FaultInjected {
					continue
				}
				if !one.V.Proven {
					b.Errorf("%s: %s %s", provider, one.V.Proof, one.V.Error)
				}
				if first == 0 {
					first = seen.Meta.Started.Add(time.Duration(one.V.Effect)).Sub(began)
				}
				took = append(took, float64(one.V.Effect-one.V.Called)/float64(time.Millisecond))
			}
			if len(took) != injections {
				b.Fatalf("%s: %d injections, want %d", provider, len(took), injections)
			}
			slices.Sort(took)
			b.ReportMetric(took[len(took)/2], "ms/"+provider+"-p50")
			b.ReportMetric(took[len(took)*99/100], "ms/"+provider+"-p99")
			b.ReportMetric(first.Seconds(), "s/"+provider)
			return first, true
		}
		before := f.received("node-2")
		run("remote", f.inside("run", "--inventory", f.inventory)...)
		b.ReportMetric(float64(f.received("node-2")-before)/1e6, "MB/node")
		f.do(exitPass, f.inside("inventory", "release", f.inventory)...)
		f.do(exitPass, "down")
		run("local", "run")
		if out, code := f.try("kind", "image"); code != exitPass {
			b.Logf("kind is left out: %s", out)
			continue
		}
		run("kind", "run", "--provider", "kind")
	}
	b.ReportMetric(0, "ns/op")
}

// received returns how many bytes a node has received.
func (f *foreign) received(node string) (sum int) {
	f.t.Helper()
	out, _ := f.do(exitPass, "shell", node, "--", "cat", "/proc/net/dev")
	for line := range strings.Lines(out) {
		device, rest, ok := strings.Cut(line, ":")
		if fields := strings.Fields(rest); ok && strings.TrimSpace(device) != "lo" && len(fields) > 0 {
			n, err := strconv.Atoi(fields[0])
			if err != nil {
				f.t.Fatal(err)
			}
			sum += n
		}
	}
	return sum
}
