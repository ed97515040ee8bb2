package agent

import (
	"bytes"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	mdnetlink "github.com/mdlayher/netlink"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/holdfast-ha/holdfast/framework"
)

// detourLab is a lab whose links can lead through user space. Its first node filters
// by the reverse path, as the nodes of kind do.
func detourLab(t *testing.T) *lab {
	t.Helper()
	l := newLab(t, 1)
	l.inside(node1, func() error {
		for _, name := range []string{"all", "eth0"} {
			if err := os.WriteFile(filepath.Join("/proc/sys/net/ipv4/conf", name, "rp_filter"), []byte("1"), 0); err != nil {
				return err
			}
		}
		return nil
	})
	if err := l.network.CheckImpairment(t.Context(), []framework.Link{link(node1)}, framework.Impairment{Delay: time.Millisecond}); err != nil {
		t.Skip(err)
	}
	return l
}

// took returns how long the quickest of some echoes takes.
func took(t *testing.T, echo func() error) time.Duration {
	t.Helper()
	best := time.Hour
	for range 15 {
		began := time.Now()
		must(t, echo())
		best = min(best, time.Since(began))
	}
	return best
}

// TestDelay delays a link one way: what the node with the agent receives, and what
// it sends.
func TestDelay(t *testing.T) {
	t.Parallel()
	l := detourLab(t)
	l.serve(node1, 2380)
	l.serve(node2, 2380)
	const delay = 60 * time.Millisecond
	for _, from := range []int{node1, node2} {
		old := l.mustDial(from, 2380)
		handle := l.impair(framework.Impairment{Delay: delay}, time.Hour, link(from))
		fresh := l.mustDial(from, 2380)
		for _, conn := range []func() error{func() error { return echo(old, 5*time.Second) }, func() error { return echo(fresh, 5*time.Second) }} {
			if d := took(t, conn); d < delay || d > 2*delay {
				t.Errorf("from %s: a round trip takes %s, one way of which takes %s longer", hostName(from), d, delay)
			}
		}
		c := l.counters(handle)
		if c.Held == 0 || c.HeldFor/time.Duration(c.Held) < delay || c.Delayed < c.Held || c.Dropped > 0 {
			t.Errorf("from %s: the counters say %+v", hostName(from), c)
		}
		if s := l.state(from); len(s.Impairments) != 1 || s.Impairments[0] != handle {
			t.Errorf("from %s: the link is %+v", hostName(from), s)
		}
		if s := l.state(1 - from); len(s.Impairments) > 0 {
			t.Errorf("from %s: the other direction is %+v", hostName(from), s)
		}
		l.restore(handle)
		l.restore(handle)
		eventually(t, "a round trip takes less than "+delay.String(), func() bool {
			began := time.Now()
			must(t, echo(old, 5*time.Second))
			return time.Since(began) < delay
		})
		if after := l.counters(handle); after.Held < c.Held {
			t.Errorf("restored from %s, the counters say %+v, before %+v", hostName(from), after, c)
		}
	}
}

// TestUserSpace does to packets what nftables cannot.
func TestUserSpace(t *testing.T) {
	t.Parallel()
	l := detourLab(t)
	for _, from := range []int{node1, node2} {
		handle := l.impair(framework.Impairment{Duplicate: 1}, time.Hour, link(from, 9997))
		if came := l.datagrams(from, 9997, 20, 40); came != 40 {
			t.Errorf("from %s: %d packets came of 20 that were sent twice", hostName(from), came)
		}
		if c := l.counters(handle); c.Duplicated != 20 || c.Matched != 20 {
			t.Errorf("from %s: the counters say %+v", hostName(from), c)
		}
		l.restore(handle)

		handle = l.impair(framework.Impairment{Corrupt: 1}, time.Hour, link(from, 9996))
		if came := l.datagrams(from, 9996, 20, 20); came > 0 {
			t.Errorf("from %s: %d packets came in spite of their checksums", hostName(from), came)
		}
		if !l.passes(from) {
			t.Errorf("from %s: another port carries nothing", hostName(from))
		}
		if c := l.counters(handle); c.Corrupted != 20 {
			t.Errorf("from %s: the counters say %+v", hostName(from), c)
		}

		// A cut on the same link counts for itself.
		cut := l.impair(framework.Impairment{Cut: true}, time.Hour, link(from, 9995))
		if came := l.datagrams(from, 9995, 3, 3); came > 0 {
			t.Errorf("from %s: %d packets pass a cut", hostName(from), came)
		}
		if c := l.counters(cut); c.Dropped != 3 {
			t.Errorf("from %s: the cut counts %+v", hostName(from), c)
		}
		l.restore(cut)
		l.restore(handle)
	}
}

// TestRate limits a link: packets wait for each other.
func TestRate(t *testing.T) {
	t.Parallel()
	l := detourLab(t)
	l.serve(node1, 2380)
	conn := l.mustDial(node2, 2380)
	handle := l.impair(framework.Impairment{Rate: 1e6}, time.Hour, link(node2))
	began := time.Now()
	const size = 60_000 // half a second
	_ = conn.SetDeadline(time.Now().Add(patience))
	go func() { _, _ = conn.Write(make([]byte, size)) }()
	for n, buf := 0, make([]byte, size); n < size; {
		k, err := conn.Read(buf)
		must(t, err)
		n += k
	}
	if d := time.Since(began); d < 300*time.Millisecond {
		t.Errorf("%d bytes took %s at 1 Mbit/s", size, d)
	}
	if c := l.counters(handle); c.Held == 0 {
		t.Errorf("the counters say %+v", c)
	}
	l.restore(handle)
}

// filters returns the reverse path filters of the first host, by device.
func (l *lab) filters() map[string]string {
	l.t.Helper()
	all := map[string]string{}
	l.inside(node1, func() error {
		devices, err := os.ReadDir(confDir)
		if err != nil {
			return err
		}
		for _, d := range devices {
			if strings.HasPrefix(d.Name(), detourDevice) || strings.HasPrefix(d.Name(), "gone") {
				continue
			}
			b, err := os.ReadFile(filterFile(d.Name()))
			if err != nil {
				return err
			}
			all[d.Name()] = strings.TrimSpace(string(b))
		}
		return nil
	})
	return all
}

// TestFiltersRestored checks that the node's reverse path filters are what they were before a
// detour, and whether the agent or the shell script ends it.
func TestFiltersRestored(t *testing.T) {
	t.Parallel()
	l := detourLab(t)
	n := l.nodes[node1]
	l.inside(node1, func() error {
		return netlink.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "gone0"}, PeerName: "gone1"})
	})
	before := l.filters()
	for _, tt := range []struct {
		by  string
		ttl time.Duration
		end func(handle string)
	}{
		{"the agent", time.Hour, func(handle string) {
			l.inside(node1, func() error {
				gone, err := netlink.LinkByName("gone0")
				if err != nil {
					return err
				}
				return netlink.LinkDel(gone)
			})
			l.restore(handle)
		}},
		{"the agent, when its time is over", 500 * time.Millisecond, func(string) {
			eventually(t, "it is over", func() bool { return len(l.state(node2).Impairments) == 0 })
		}},
		{"an agent that starts when it is over", time.Second, func(string) {
			n.kill()
			time.Sleep(time.Second)
			n.up()
		}},
		{"two agents", time.Hour, func(handle string) {
			n.kill()
			n.up()
			if during := l.filters(); during["all"] != "0" {
				t.Errorf("to the successor, the filters are %v", during)
			}
			l.restore(handle)
		}},
		{"a shell", time.Hour, func(string) {
			n.kill()
			var out bytes.Buffer
			undo := exec.Command("sh", undoFile(n.config.Dir))
			undo.Stdout, undo.Stderr = &out, &out
			must(t, n.start(undo))
			if err := undo.Wait(); err != nil || out.Len() > 0 {
				t.Errorf("%s, %v", out.String(), err)
			}
		}},
	} {
		handle := l.impair(framework.Impairment{Delay: time.Millisecond}, tt.ttl, link(node2))
		if during := l.filters(); during["all"] != "0" || during["lo"] != "1" {
			t.Errorf("during a detour the filters are %v", during)
		}
		tt.end(handle)
		if after := l.filters(); !maps.Equal(before, after) {
			t.Errorf("ended by %s: the filters are %v, were %v", tt.by, after, before)
		}
		if exists(undoFile(n.config.Dir)) && tt.by != "a shell" {
			t.Errorf("ended by %s: there is still something to undo", tt.by)
		}
	}
	n.up() // it has an impairment again
	l.inside(node1, func() error { return setFilter("lo", 2) })
	must(t, n.HealAll(t.Context()))
	before["lo"] = "2"
	if after := l.filters(); !maps.Equal(before, after) {
		t.Errorf("one being changed since, the filters are %v, want %v", after, before)
	}
	if exists(undoFile(n.config.Dir)) {
		t.Error("there is still something to undo")
	}
}

// TestDetourEndRefused: a detour that the kernel does not end at first ends as soon as it does.
func TestDetourEndRefused(t *testing.T) {
	t.Parallel()
	l := detourLab(t)
	before := l.filters()
	handle := l.impair(framework.Impairment{Delay: time.Millisecond}, time.Hour, link(node2))
	release := l.own(framesTable)
	l.restore(handle)
	if during := l.filters(); maps.Equal(before, during) {
		t.Fatalf("the detour has ended: the filters are %v", during)
	}
	release()
	eventually(t, "the filters are restored", func() bool { return maps.Equal(before, l.filters()) })
	eventually(t, "nothing is left to undo", func() bool { return !exists(undoFile(l.nodes[node1].config.Dir)) })
	l.inside(node1, func() error {
		devices, err := netlink.LinkList()
		for _, d := range devices {
			if strings.HasPrefix(d.Attrs().Name, detourDevice) {
				t.Errorf("device %s is left", d.Attrs().Name)
			}
		}
		return err
	})
}

// own replaces a table of the first node by one that no other process may change until release is called.
func (l *lab) own(table string) (release func()) {
	l.t.Helper()
	var conn *mdnetlink.Conn
	l.inside(node1, func() (err error) {
		conn, err = mdnetlink.Dial(unix.NETLINK_NETFILTER, nil)
		return err
	})
	const owned = 2 // NFT_TABLE_F_OWNER, since Linux 5.12
	f := &frames{}
	f.add(unix.NFT_MSG_DELTABLE, attribute(unix.NFTA_TABLE_NAME, table))
	f.add(unix.NFT_MSG_NEWTABLE, attribute(unix.NFTA_TABLE_NAME, table), number(unix.NFTA_TABLE_FLAGS, owned))
	if err := f.send(conn); err != nil {
		_ = conn.Close()
		l.t.Skip("tables have no owners here: ", err)
	}
	return func() { _ = conn.Close() }
}

// TestDetourDeadMan kills the agent while a link leads through it.
func TestDetourDeadMan(t *testing.T) {
	t.Parallel()
	l := detourLab(t)
	l.serve(node1, 2380)
	conn := l.mustDial(node2, 2380)
	const delay = 60 * time.Millisecond
	handle := l.impair(framework.Impairment{Delay: delay}, 4*time.Second, link(node2))
	l.nodes[node1].kill()
	l.nodes[node1].up()
	if d := took(t, func() error { return echo(conn, 5*time.Second) }); d < delay {
		t.Errorf("to the successor, a round trip takes %s", d)
	}
	eventually(t, "it is over", func() bool {
		began := time.Now()
		must(t, echo(conn, 5*time.Second))
		return time.Since(began) < delay/2
	})
	if c := l.counters(handle); c.Held == 0 {
		t.Errorf("the counters say %+v", c)
	}
}
