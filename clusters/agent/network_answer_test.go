package agent

import (
	"errors"
	"net/netip"
	"testing"
	"time"

	"github.com/google/nftables"
	"golang.org/x/sys/unix"

	"github.com/holdfast-ha/holdfast/framework"
)

// flaky is the network of the first host of a lab in this process, whose agent is gone. Its kernel
// answers as a test wants.
type flaky struct {
	*network
	t *testing.T
	// refuses are how many batches cannot be created from now on, lost how many answers get lost;
	// guarded by the network's mu.
	refuses, lost int
}

func newFlaky(t *testing.T, l *lab, dir string) *flaky {
	t.Helper()
	s, err := openStore(dir)
	must(t, err)
	f := &flaky{network: newNetwork(Config{Device: "none"}, s), t: t}
	f.newBatch = func() (*batch, error) {
		if f.refuses > 0 {
			f.refuses--
			return nil, errors.New("no memory")
		}
		conn, err := nftables.New(nftables.WithNetNSFd(int(l.ns[node1].Fd())))
		return &batch{Conn: conn, table: table(), answered: func(err error) error {
			if err == nil && f.lost > 0 {
				f.lost--
				return unix.ENOBUFS
			}
			return err
		}}, err
	}
	t.Cleanup(f.stop)
	return f
}

// stop ends its timers, as the end of its process would.
func (f *flaky) stop() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.timers.StopAll()
	f.resetter.close()
}

func (f *flaky) meets() {
	f.t.Helper()
	must(f.t, f.meet([]Peer{{Name: hostName(node2), Prefixes: []netip.Prefix{netip.MustParsePrefix(hostAddr(node2) + "/32")}}}))
}

// cut cuts the link from the second host.
func (f *flaky) cut(ttl time.Duration) error {
	return f.impair(request{Handle: "cut", Paths: []Path{{Peer: hostName(node2)}}, Impairment: framework.Impairment{Cut: true}, For: ttl})
}

func (f *flaky) supported() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.support(framework.Impairment{Cut: true}) == nil
}

// TestImpairAnswerLost: links that the kernel has cut although its answer was lost are whole after the
// error, or as soon as the kernel answers.
func TestImpairAnswerLost(t *testing.T) {
	t.Parallel()
	for _, lost := range []int{1, 2} {
		l := newLab(t, 1)
		l.nodes[node1].kill()
		f := newFlaky(t, l, t.TempDir())
		f.resume(false)
		f.meets()
		f.mu.Lock()
		f.lost = lost
		f.mu.Unlock()
		if err := f.cut(time.Hour); !errors.Is(err, unix.ENOBUFS) {
			t.Errorf("%d answers are lost: %v", lost, err)
		}
		eventually(t, "the agent knows of no impairment", func() bool { return len(f.saved()) == 0 })
		if !l.passes(node2) {
			t.Errorf("%d answers are lost: no packet passes", lost)
		}
		must(t, f.cut(time.Hour))
		if l.passes(node2) {
			t.Error("a packet passes a cut")
		}
		must(t, f.restore("cut"))
		if !l.passes(node2) {
			t.Error("no packet passes")
		}
	}
}

// TestHealAllAgain: an agent that is to heal everything tries again until the kernel lets it.
func TestHealAllAgain(t *testing.T) {
	t.Parallel()
	l := newLab(t, 1)
	l.nodes[node1].kill()
	f := newFlaky(t, l, t.TempDir())
	f.resume(false)
	f.meets()
	must(t, f.cut(time.Hour))
	f.mu.Lock()
	f.refuses = 2
	f.mu.Unlock()
	a := &agent{network: f.network, store: f.store, certificates: &certificates{}, etcd: &etcd{}, promises: &promises{}, clocks: &clocks{}, filler: &filler{}}
	a.healAll()
	eventually(t, "the cut is over", func() bool { return len(f.store.active()) == 0 })
	if !l.passes(node2) {
		t.Error("no packet passes")
	}
}

// TestResumeAgain: an agent that fails to take over the links at first ends their impairments in time.
func TestResumeAgain(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ refuses, lost int }{
		"no batch":        {refuses: 2},
		"an answer lost":  {lost: 1},
		"several of both": {refuses: 2, lost: 2},
	} {
		for _, gone := range []bool{false, true} { // the rules, as after a restart of the node
			l, dir := newLab(t, 1), t.TempDir()
			l.nodes[node1].kill()
			before := newFlaky(t, l, dir)
			before.resume(false)
			before.meets()
			must(t, before.cut(4*time.Second))
			before.stop()
			if gone {
				b, err := before.newBatch()
				must(t, err)
				b.DelTable(b.table)
				must(t, b.Flush())
			}
			f := newFlaky(t, l, dir)
			f.refuses, f.lost = tc.refuses, tc.lost
			f.resume(gone)
			if f.supported() {
				t.Fatalf("%s: it has taken over", name)
			}
			eventually(t, "links can be impaired again", f.supported)
			eventually(t, "the impairment is over", func() bool { return len(f.saved()) == 0 })
			if !l.passes(node2) {
				t.Errorf("%s, rules gone %t: no packet passes", name, gone)
			}
		}
	}
}

// TestResumeNever: an agent that cannot take over says so, and still tries to end what is active.
func TestResumeNever(t *testing.T) {
	t.Parallel()
	l, dir := newLab(t, 1), t.TempDir()
	l.nodes[node1].kill()
	before := newFlaky(t, l, dir)
	before.resume(false)
	before.meets()
	must(t, before.cut(time.Hour))
	before.stop()
	f := newFlaky(t, l, dir)
	f.refuses = 1 << 30
	f.resume(false)
	f.mu.Lock()
	timers := f.timers.Len()
	f.mu.Unlock()
	if f.supported() || timers != 2 {
		t.Errorf("it can impair links: %t; it has %d timers, want those of the impairment and of another attempt", f.supported(), timers)
	}
	none := newFlaky(t, l, t.TempDir())
	none.refuses = 1 << 30
	none.resume(false)
	if none.supported() || none.timers.Len() > 0 {
		t.Error("without an impairment, it tries again")
	}
}
