package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/framework/fault"
)

// faultCluster is a cluster that supports every fault.
const faultCluster = `apiVersion: holdfast.dev/v1alpha1
kind: Cluster
metadata:
  name: faults
spec:
  nodes: 3
  disk: fuse
  extraArgs:
    etcd:
      quota-backend-bytes: "67108864"
`

// manyFaults is how many random faults TestClusterManyFaults injects.
const manyFaults = "HOLDFAST_TEST_FAULTS"

// faultHealLimit is how long healing a fault and recovery of the cluster may take, from the end
// of the fault's time to live.
const faultHealLimit = 3 * time.Minute

func (c commandLine) upForFaults() {
	c.t.Helper()
	file := filepath.Join(c.run, "cluster.yaml")
	if err := os.WriteFile(file, []byte(faultCluster), 0o600); err != nil {
		c.t.Fatal(err)
	}
	c.up("-f", file)
}

// history returns the last entry of each injection in the cluster's log.
func (c commandLine) history() map[string]fault.Entry {
	c.t.Helper()
	b, err := os.ReadFile(filepath.Join(c.run, "holdfast", "faults", "logs", "faults.jsonl"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		c.t.Fatal(err)
	}
	all := map[string]fault.Entry{}
	for line := range bytes.Lines(b) {
		if !bytes.HasSuffix(line, []byte("\n")) {
			break // another process is writing it
		}
		var e fault.Entry
		if err := json.Unmarshal(line, &e); err != nil {
			c.t.Fatalf("%s: %v", line, err)
		}
		all[e.ID] = e
	}
	return all
}

// awaitWhole waits until no fault is active, every entrance is ready, every process runs, and all
// etcd members follow one leader.
func (c commandLine) awaitWhole(what string) {
	c.t.Helper()
	var broken []string
	for deadline := time.Now().Add(faultHealLimit); time.Now().Before(deadline); time.Sleep(200 * time.Millisecond) {
		s := c.status()
		broken = nil
		for _, f := range s.Faults {
			broken = append(broken, f.ID+" is active")
		}
		for _, e := range s.Entrances {
			if !e.Ready {
				broken = append(broken, e.Name+": "+e.Error)
			}
		}
		leaders := 0
		for _, h := range s.Hosts {
			if !h.Powered || h.Error != "" {
				broken = append(broken, h.Name+": off or silent: "+h.Error)
			}
			for _, p := range h.Components {
				if p.PID == 0 || p.Held || strings.HasPrefix(p.State, "T") {
					broken = append(broken, fmt.Sprintf("%s on %s: %s", p.Component, h.Name, processWords(p)))
				}
			}
			if h.Etcd != nil && h.Etcd.Error != "" {
				broken = append(broken, h.Name+": "+h.Etcd.Error)
			} else if h.Etcd != nil && h.Etcd.Leader {
				leaders++
			}
		}
		if leaders != 1 {
			broken = append(broken, fmt.Sprintf("%d etcd leaders", leaders))
		}
		for _, l := range s.Leases {
			if l.Holder == "" {
				broken = append(broken, string(l.Component)+": nobody holds the lease "+l.Error)
			}
		}
		if len(broken) == 0 {
			return
		}
	}
	c.t.Fatalf("after %s the cluster is not whole within %s:\n%s", what, faultHealLimit, strings.Join(broken, "\n"))
}

// TestClusterFaultsOutliveHarness injects every fault as in its example, and kills the command
// that injected it with SIGKILL. Each fault heals automatically when its time is over, with
// proof, and the cluster recovers. It runs alone: each effect must be seen within 4 s, and a quota
// takes effect only where the machine can give more.
func TestClusterFaultsOutliveHarness(t *testing.T) {
	c := newCommandLine(t)
	c.upForFaults()
	for _, f := range fault.All() {
		t.Run(f.Name, func(t *testing.T) {
			c := c
			c.t = t
			id := f.Name + "-1"
			target, params, _ := strings.Cut(f.Example, " ")
			lasts := "4s"
			if f == fault.MemoryPressure || f == fault.FillQuota {
				lasts = "15s" // all of the memory has to be touched first, or all of the quota written
			}
			cmd := c.command(append([]string{"inject", f.Name, "--on", target, "--for", lasts}, strings.Fields(params)...)...)
			var out bytes.Buffer
			cmd.Stdout, cmd.Stderr = &out, &out
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			ended := make(chan struct{})
			go func() { _ = cmd.Wait(); close(ended) }()
			began := time.Now()
			running := true
			for running {
				if _, there := c.history()[id]; there {
					break
				}
				select {
				case <-ended:
					running = false
				case <-time.After(5 * time.Millisecond):
				}
			}
			_ = cmd.Process.Kill()
			<-ended
			e, there := c.history()[id]
			if !there || !e.Effect.Proven {
				t.Fatalf("not injected: %+v\n%s", e, &out)
			}
			inject := time.Since(began)
			for deadline := time.Now().Add(faultHealLimit); e.Phase == fault.Active && time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
				e = c.history()[id]
			}
			if e.Phase != fault.Healed {
				t.Fatalf("not healed: %+v", e)
			}
			c.awaitWhole(f.Name)
			t.Logf("active after %s, whole after %s\n%s\n%s", inject.Round(time.Millisecond), time.Since(began).Round(time.Millisecond), e.Effect.What, e.Healing.What)
		})
	}
}

// resources are what the cluster's server uses.
type resources struct {
	descriptors, threads int
	mib                  float64
	rules                int
	kinds                string // of descriptors
}

// TestClusterManyFaults injects random faults in a row, as in their examples, and heals each. The
// cluster recovers, and its server uses no more resources than before.
func TestClusterManyFaults(t *testing.T) {
	t.Parallel()
	c := newCommandLine(t)
	n := 10
	if v := os.Getenv(manyFaults); v != "" {
		var err error
		if n, err = strconv.Atoi(v); err != nil {
			t.Fatalf("%s=%s: want a number", manyFaults, v)
		}
	}
	c.upForFaults()
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 0))
	t.Logf("seed %d, %d faults", seed, n)
	nothing := 0
	inject := func(f *fault.Fault) {
		target, params, _ := strings.Cut(f.Example, " ")
		out, code := c.try(append([]string{"inject", f.Name, "--on", target, "--for", "2m"}, strings.Fields(params)...)...)
		switch {
		case code == exitPass:
			c.do(exitPass, "heal")
		case code == exitInconclusive && strings.Contains(out, "nothing was injected"):
			nothing++ // such as a compaction just after another one
			t.Log(out)
		default:
			t.Fatalf("%s: exit code %d\n%s", f.Name, code, out)
		}
		c.awaitWhole(f.Name)
	}
	// What the first fault of each kind sets up permanently is not drift.
	warm := min(n/4, 20)
	var before resources
	for i := range n {
		if i == warm {
			before = c.resources()
		}
		f := fault.All()[random.IntN(len(fault.All()))]
		t.Logf("%d: %s", i, f.Name)
		inject(f)
	}
	drifted := func(r resources) bool {
		return r.descriptors > before.descriptors+10 || r.threads > before.threads+5 || r.mib > before.mib+50 || r.rules != 0
	}
	// Dials of an overload that are pending at its end take some seconds to fail or to be closed,
	// and freed memory takes some to be returned.
	after := c.resources()
	t.Logf("before %+v, right after %+v", before, after)
	for deadline := time.Now().Add(20 * time.Second); drifted(after) && time.Now().Before(deadline); after = c.resources() {
		time.Sleep(time.Second)
	}
	// Such as a compaction right after the automatic one.
	if nothing > max(1, n/20) {
		t.Errorf("%d of %d faults found nothing to do", nothing, n)
	}
	t.Logf("in the end %+v: %s", after, after.kinds)
	if drifted(after) {
		t.Errorf("the server held %+v before %d faults, and %+v after them", before, n-warm, after)
	}
}

func (c commandLine) resources() resources {
	c.t.Helper()
	var r resources
	r.rules = c.status().Impairments
	environments, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, p := range environments {
		dir := filepath.Dir(p)
		env, _ := os.ReadFile(p)
		line, _ := os.ReadFile(filepath.Join(dir, "cmdline"))
		if !bytes.Contains(env, []byte(c.run)) || !bytes.HasPrefix(line, []byte("holdfast-keeper\x00serve\x00")) {
			continue
		}
		fds, _ := os.ReadDir(filepath.Join(dir, "fd"))
		tasks, _ := os.ReadDir(filepath.Join(dir, "task"))
		r.descriptors, r.threads = len(fds), len(tasks)
		kinds := map[string]int{}
		for _, fd := range fds {
			to, _ := os.Readlink(filepath.Join(dir, "fd", fd.Name()))
			kind, _, _ := strings.Cut(to, ":")
			kinds[kind]++
		}
		r.kinds = fmt.Sprint(kinds)
		status, _ := os.ReadFile(filepath.Join(dir, "status"))
		for l := range strings.Lines(string(status)) {
			if rest, ok := strings.CutPrefix(l, "VmRSS:"); ok {
				kib, _ := strconv.ParseFloat(strings.Fields(rest)[0], 64)
				r.mib = kib / 1024
			}
		}
		return r
	}
	c.t.Fatal("the server of the cluster is not found")
	return r
}
