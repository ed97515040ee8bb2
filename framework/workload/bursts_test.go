package workload

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-ha/holdfast/framework/record"
	"github.com/holdfast-ha/holdfast/framework/workload/apitest"
)

// silence lets an API server take requests and answer none, until the returned function is called.
func silence(s *apitest.Server) (end func()) {
	over := make(chan struct{})
	s.Hook(func(_ http.ResponseWriter, r *http.Request) bool {
		_, _ = io.Copy(io.Discard, r.Body) // or the server does not notice that the client is gone
		select {
		case <-over:
		case <-r.Context().Done():
		}
		return true
	})
	return func() {
		s.Hook(nil)
		close(over)
	}
}

// idle starts traffic whose clients use no register for as long as a test lasts.
func idle(t *testing.T, c *apitest.Cluster, w *record.Writer) *Traffic {
	t.Helper()
	traffic, err := Start(t.Context(), Config{Seed: 1, Cluster: c, Settings: Settings{Profiles: []string{ProfileRegisters}, Registers: RegisterSettings{Interval: maxTime}}}, w)
	if err != nil {
		t.Fatal(err)
	}
	return traffic
}

// In each round of a burst one client of each API server updates the same version at the same time.
func TestBurst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := apitest.NewInMemory(t, 3)
		w, read := recording(t)
		traffic := idle(t, c, w)
		over := func() bool { return !traffic.bursts.running.Load() }
		clients := func() int {
			traffic.mu.Lock()
			defer traffic.mu.Unlock()
			return len(traffic.ways["node-1"])
		}
		lasting := clients()
		traffic.Burst()
		waitFor(t, "the burst", over)
		first := w.Now()
		time.Sleep(time.Millisecond)
		traffic.Burst()
		waitFor(t, "another burst", over)
		second := w.Now()
		time.Sleep(time.Millisecond)
		if n := clients(); n != lasting {
			t.Errorf("%d clients of node-1 after two bursts, %d before", n, lasting)
		}

		// An API server that does not answer holds up neither the caller nor, for long, the end.
		end := silence(c.Server(1))
		before := c.Server(1).Count(http.MethodPut)
		traffic.Burst()
		waitFor(t, "an update through the silent API server", func() bool { return c.Server(1).Count(http.MethodPut) > before })
		had := clients()
		traffic.Burst()
		if over() || clients() != had {
			t.Error("a burst started while another one was running, or did not wait for the silent API server")
		}
		stopped := make(chan struct{})
		go func() {
			traffic.Stop()
			close(stopped)
		}()
		waitFor(t, "the round to end", over)
		end()
		<-stopped
		checkBursts(t, read(), first, second)

		r, err := newRegisters(c.Entrances()[0], w, "test", DefaultNamespace, "", time.Second)
		if err != nil {
			t.Fatal(err)
		}
		defer r.close()
		if op := r.get(t.Context(), traffic.bursts.key()); op.Outcome != record.OK || op.Found {
			t.Errorf("left behind: %+v", op)
		}
	})
}

// checkBursts checks the two bursts that ended at first and second, and the one after them, through
// node-2 in vain.
func checkBursts(t *testing.T, run *record.Run, first, second record.Nanos) {
	t.Helper()
	tried, won := map[string]map[string]bool{}, map[string]int{}
	versions := [3]int{} // of each burst
	for _, o := range run.Ops {
		op := o.V
		if op.Purpose != "burst" {
			continue
		}
		if !strings.HasPrefix(op.Key, "burst-") || !strings.HasPrefix(op.Collection, "bursts-") || op.Client != "burst/"+op.Entrance {
			t.Errorf("%+v", op)
		}
		if op.Type != record.OpUpdate {
			continue
		}
		burst := 2
		if op.Return <= first {
			burst = 0
		} else if op.Return <= second {
			burst = 1
		}
		if tried[op.Expect] == nil {
			tried[op.Expect] = map[string]bool{}
			versions[burst]++
		}
		tried[op.Expect][op.Entrance] = true
		switch {
		case op.Outcome == record.OK:
			won[op.Expect]++
		case burst == 2 && op.Entrance == "node-2":
			if took := time.Duration(op.Return - op.Call); op.Outcome != record.Unknown || took < burstTimeout-100*time.Millisecond || took > burstTimeout+3*time.Second {
				t.Errorf("after %s: %+v", took, op)
			}
		case op.Refusal != record.RefusedVersion:
			t.Errorf("refused for something else: %+v", op)
		}
	}
	for version, through := range tried {
		if len(through) != 3 || won[version] != 1 {
			t.Errorf("version %s: tried through %v, won by %d", version, through, won[version])
		}
	}
	if versions[0] != burstRounds || versions[1] != burstRounds || versions[2] < 1 || versions[2] >= burstRounds {
		t.Errorf("rounds of the three bursts: %v", versions)
	}
}

// Only traffic whose clients contend for registers anyway has bursts, and only with rivals.
func TestNoBurst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, tt := range []struct {
			name     string
			servers  int
			profiles []string
		}{
			{"another profile", 3, []string{ProfileSet}},
			{"one API server", 1, []string{ProfileRegisters, ProfileContests}},
		} {
			w, read := recording(t)
			traffic, err := Start(t.Context(), Config{Seed: 1, Cluster: apitest.NewInMemory(t, tt.servers), Settings: Settings{Profiles: tt.profiles}}, w)
			if err != nil {
				t.Fatal(err)
			}
			traffic.Burst()
			traffic.Stop()
			for _, o := range read().Ops {
				if o.V.Purpose == "burst" {
					t.Fatalf("%s: %+v", tt.name, o.V)
				}
			}
		}
	})
}

// Ten reads and ten writes are tried through each API server, even if none of them answers.
func TestAttempts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := apitest.NewInMemory(t, 3)
		w, read := recording(t)
		traffic := idle(t, c, w)
		var ends []func()
		for i := range 3 {
			ends = append(ends, silence(c.Server(i)))
		}
		began := time.Now()
		if err := traffic.Attempts(t.Context()); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took > 3*attemptRounds*attemptTimeout {
			t.Errorf("it took %s", took)
		}
		for _, end := range ends {
			end()
		}
		traffic.Stop()
		reads, writes := map[string]int{}, map[string]int{}
		keys := map[string]bool{}
		for _, o := range read().Ops {
			op := o.V
			switch {
			case op.Purpose != "attempt":
				continue
			case op.Outcome != record.Unknown:
				t.Errorf("%+v", op)
			case op.Type == record.OpGet && op.Consistency == "quorum":
				reads[op.Entrance]++
			case op.Type == record.OpCreate && !keys[op.Key]:
				writes[op.Entrance]++
				keys[op.Key] = true
			default:
				t.Errorf("%+v", op)
			}
		}
		for _, e := range c.Entrances() {
			if reads[e.Name] != 10 || writes[e.Name] != 10 {
				t.Errorf("%d reads and %d writes through %s, want 10 of each", reads[e.Name], writes[e.Name], e.Name)
			}
		}

		other, _ := recording(t)
		set, err := Start(t.Context(), Config{Seed: 1, Cluster: c, Settings: Settings{Profiles: []string{ProfileSet}}}, other)
		if err != nil {
			t.Fatal(err)
		}
		defer set.Stop()
		if err := set.Attempts(t.Context()); err == nil || !strings.Contains(err.Error(), "no profile registers") {
			t.Errorf("without registers: %v", err)
		}
	})
}
