package judge

import (
	"fmt"
	"strings"
	"testing"

	"github.com/holdfast-ha/holdfast/framework/record"
)

// informs records what the workload of informers does: writes at 10 Hz, of which those
// between lostFrom and lostTo are lost in the restore at 25 s; versions count up, and jump
// by bump at the restore.
func informs(bump int, change func(*record.Op)) *story {
	s := newStory()
	s.fault("restored", "restore-snapshot", "node-1", "etcd", 20, 27)
	// The snapshot is of 21 s, etcd is down from 24 s to 25 s, and the proof comes at 26 s.
	s.run.Faults[0].V.Called, s.run.Faults[0].V.Effect = sec(24), sec(26)
	s.at(20)
	add(s, &s.run.Phases, record.Phase{Name: "inject"})
	version, has := 100, []string{}
	note := func(o record.Op) {
		o.API, o.Outcome = "kubernetes", record.OK
		change(&o)
		s.op(o)
	}
	for n := range 400 {
		at := float64(n) * 0.1
		o := during(at, at+0.05)
		o.Client, o.Entrance, o.Type, o.Key, o.Purpose = "informed/node-1", "node-1", record.OpCreate, fmt.Sprintf("informed-x-%d", n), "informed-write"
		switch {
		case at >= 24 && at < 25:
			o.API, o.Outcome, o.Error = "kubernetes", record.Unknown, "unavailable"
			s.op(o)
			continue
		case n == 250:
			version += bump - 30 // three seconds are forgotten
		}
		version++
		o.Revision = fmt.Sprint(version)
		note(o)
		if at < 21 || at >= 25 {
			has = append(has, fmt.Sprint(n))
		}
		if n%5 == 0 {
			v := during(at+0.06, at+0.06)
			v.Client, v.Entrance, v.Purpose, v.Revision = "informer/node-1", "node-1", "informed-version", fmt.Sprint(version)
			note(v)
		}
	}
	for _, e := range threeNodes {
		for _, purpose := range []string{"informed-list", "informed-store"} {
			o := during(41, 41.1)
			o.Client, o.Entrance, o.Purpose, o.Value, o.Revision = purpose+"/"+e, e, purpose, strings.Join(has, " "), fmt.Sprint(version)
			note(o)
		}
	}
	return s.at(45)
}

func TestRestoredFromSnapshot(t *testing.T) {
	with := func(bump int, change func(*record.Op)) func() *story {
		return func() *story { return informs(bump, change) }
	}
	without := func(purpose, entrance, number string) func(*record.Op) {
		return func(o *record.Op) {
			if o.Purpose == purpose && o.Entrance == entrance {
				o.Value = strings.Replace(o.Value, " "+number+" ", " ", 1)
			}
		}
	}
	as := func(*record.Op) {}
	rule(t, record.Check{Requirement: "HA-RC-005", Judge: "restored-from-snapshot", Fault: "restored"}, []ruling{
		{name: "with a bump", want: Pass, took: "380 writes, 30 lost", says: "No version went back for 3 informers", story: with(1000, as)},
		{name: "without", want: Fail, says: "Versions must never go back for clients", story: with(0, as)},
		{name: "without, on a loaded machine", want: Fail, says: "Versions must never go back for clients", story: func() *story { return with(0, as)().loaded() }},
		{name: "an informer goes back", want: Fail, says: "informer/node-1 was at version", story: with(1000, func(o *record.Op) {
			if o.Purpose == "informed-version" && o.Call > sec(38) {
				o.Revision = "150"
			}
		})},
		{name: "an informer stands still", want: Fail, says: "that of node-2 has", story: with(1000, without("informed-store", "node-2", "390"))},
		{name: "a write of before the snapshot is gone", want: Fail, says: "informed-x-50, created", story: with(1000, without("informed-list", "node-2", "50"))},
		{name: "one of afterwards is gone", want: Fail, says: "What is acknowledged after the restore must stay: informed-x-390", story: with(1000, without("informed-list", "node-2", "390"))},
		{name: "not of one moment", want: Fail, says: "must be that of one moment: informed-x-205", story: with(1000, without("informed-list", "node-1", "205"))},
		{name: "nothing was lost", want: Inconclusive, says: "no effect of the restore", story: with(1000, func(o *record.Op) {
			if o.Purpose == "informed-list" {
				for n := 210; n < 240; n++ {
					o.Value += fmt.Sprintf(" %d", n)
				}
			}
		})},
		{name: "no informer", want: Inconclusive, says: "writes were acknowledged before", story: func() *story { return newStory().fault("restored", "restore-snapshot", "node-1", "etcd", 20, 27) }},
		{name: "two moments", want: Fail, says: "informed-x-210 of version 311 is in the list through node-2, and not in that through node-1", story: with(1000, func(o *record.Op) {
			if o.Entrance == "node-2" && (o.Purpose == "informed-list" || o.Purpose == "informed-store") {
				o.Value += " 210"
			}
		})},
		{name: "a write without an answer that one list has", want: Pass, story: with(1000, func(o *record.Op) {
			if o.Entrance == "node-2" && (o.Purpose == "informed-list" || o.Purpose == "informed-store") {
				o.Value += " 245"
			}
		})},
		{name: "not listed through one API server", want: Inconclusive, says: "the API server on node-3 answered no list", story: with(1000, func(o *record.Op) {
			if o.Purpose == "informed-list" && o.Entrance == "node-3" {
				o.Outcome = record.Unknown
			}
		})},
		{name: "not listed at the end", want: Inconclusive, says: "no API server answered a list", story: with(1000, func(o *record.Op) {
			if o.Purpose == "informed-list" {
				o.Outcome = record.Unknown
			}
		})},
	})
}
