package vnet

import (
	"slices"
	"testing"
	"time"
)

// desk is a switch without namespaces, thread or real time: frames are handed
// to it, and what it sends is written down.
type desk struct {
	*Switch
	t     *testing.T
	clock int64
	out   map[string]*recorder
}

// recorder is a device that keeps what it is given.
type recorder struct {
	desk   *desk
	full   bool
	frames []received
}

type received struct {
	at  time.Duration
	buf []byte
}

func (r *recorder) fd() int                  { return -1 }
func (r *recorder) read([]byte) (int, error) { panic("not read") }
func (r *recorder) close() error             { return nil }
func (r *recorder) write(buf []byte) bool {
	if r.full {
		return false
	}
	r.frames = append(r.frames, received{time.Duration(r.desk.clock - 1), slices.Clone(buf)})
	return true
}

func newDesk(t *testing.T, seed uint64, names ...string) *desk {
	d := &desk{Switch: New(Config{Seed: seed}), t: t, clock: 1, out: make(map[string]*recorder)}
	d.now = func() int64 { return d.clock }
	for _, name := range names {
		d.out[name] = &recorder{desk: d}
		p := d.party(name)
		p.attached = true
		p.port = &Port{sw: d.Switch, party: p, device: d.out[name], plugged: true}
	}
	return d
}

// send hands over a frame from a to b.
func (d *desk) send(f frameSpec) {
	d.t.Helper()
	f.src = macA
	if f.dst == (address{}) {
		f.dst = macB
	}
	if f.from == "" {
		f.from, f.to, f.protocol = "10.0.0.1", "10.0.0.2", protoUDP
	}
	d.receive(d.parties["a"].port, f.build())
	d.sendDue()
}

// pass lets time go by.
func (d *desk) pass(span time.Duration) {
	end := d.clock + int64(span)
	for {
		due := d.sendDue()
		if due == 0 || due > end {
			break
		}
		d.clock = due
	}
	d.clock = end
	d.sendDue()
}

func (d *desk) put(imp Impairment, ports ...uint16) RuleID {
	d.t.Helper()
	id, err := d.Impair(Rule{Links: []Link{{From: "a", To: "b", Ports: ports}}, Impairment: imp})
	if err != nil {
		d.t.Fatal(err)
	}
	return id
}

func (d *desk) count(id RuleID) RuleCounters {
	c, ok := d.RuleCounters(id)
	if !ok {
		d.t.Fatalf("no counters of rule %d", id)
	}
	return total(c)
}

// total adds up what a rule has done to all its links.
func total(links []RuleCounters) (all RuleCounters) {
	for _, c := range links {
		all.Matched, all.Passed, all.Dropped = all.Matched+c.Matched, all.Passed+c.Passed, all.Dropped+c.Dropped
		all.Delayed, all.Duplicated, all.Reordered = all.Delayed+c.Delayed, all.Duplicated+c.Duplicated, all.Reordered+c.Reordered
		all.Corrupted, all.Resets = all.Corrupted+c.Corrupted, all.Resets+c.Resets
		all.Held, all.HeldFor, all.HeldBytes = all.Held+c.Held, all.HeldFor+c.HeldFor, all.HeldBytes+c.HeldBytes
	}
	return all
}

// settle checks that the counters account for every packet.
func (d *desk) settle() {
	d.t.Helper()
	for _, s := range d.Links() {
		if s.Packets+s.Duplicated != s.Delivered+s.Dropped+s.Queued {
			d.t.Errorf("counters of %s to %s drift: %+v", s.From, s.To, s.LinkCounters)
		}
	}
}
