package judge

import (
	"fmt"
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/framework/record"
)

// keepers lets twelve clients read on kept connections, each every 0.1 s from 20 s to 50 s. All
// are on node-1 and node-3 at first. One of them makes a new connection every that many
// seconds from 35 s on (0: never), to the API servers in turn.
func keepers(every float64, servers ...string) *story {
	s := newStory().fault("stop", "stop", "node-2", "kube-apiserver", 10, 25)
	s.client("client-go-1", "node-1", true, 1, 10).client("client-go-2", "node-2", true, 1, 10)
	at := map[int]string{}
	next, made := 35.0, 0
	for t := range steps(20, 50, 0.1) {
		for c := range 12 {
			p := record.Probe{Entrance: "balancer", Client: fmt.Sprintf("kept-%d", c+1), Reused: true, Kind: record.ProbeRead,
				Start: sec(t + float64(c)/1000), End: sec(t + float64(c)/1000 + 0.01), OK: true, Status: 200}
			switch {
			case at[c] == "":
				at[c], p.Reused = []string{"node-1", "node-3"}[c%2], false
			case every > 0 && t >= next && c == made%12:
				at[c], p.Reused = servers[made%len(servers)], false
				next, made = next+every, made+1
			}
			p.Server = at[c]
			s.now = p.End
			add(s, &s.run.ClientProbes, p)
		}
	}
	return s
}

func TestSpreadsAgain(t *testing.T) {
	all, others := []string{"node-1", "node-2", "node-3"}, []string{"node-1", "node-3"}
	goaway := func(chance float64, s *story) func() *story {
		return func() *story { return s.change(func(r *record.Run) { r.Meta.GoawayChance = chance }) }
	}
	rule(t, record.Check{Requirement: "HA-CL-014", Judge: "spreads-again", Fault: "stop", Bound: "H + M", Level: "SHOULD"}, []ruling{
		{name: "as it should be", want: Pass, says: "10 of 30 that clients opened again", took: "10 of 30 new connections", story: goaway(0.02, keepers(0.5, all...))},
		{name: "a balancer that closes connections", want: Pass, story: goaway(0, keepers(0.5, all...))},
		{name: "nothing closes them", want: Fail, says: "Set --goaway-chance on the API servers (0.02 at most)", story: goaway(0, keepers(0))},
		{name: "it is set, and does nothing", want: Fail, says: "with --goaway-chance=0.02 none was closed", story: goaway(0.02, keepers(0))},
		{name: "closed, but not spread", want: Fail, says: "0 of 30 that clients opened again", story: goaway(0.02, keepers(0.5, others...))},
		// Within what chance may do.
		{name: "a chance too small for so few requests", want: Inconclusive, says: "too few to conclude that nothing closes", story: goaway(0.001, keepers(0))},
		{name: "too few new ones", want: Inconclusive, says: "too few to decide whether they are spread", story: goaway(0.02, keepers(3, others...))},
		{name: "few, and one reached it", want: Pass, story: goaway(0.02, keepers(3, all...))},
		{name: "one connection was lost for some other reason", want: Inconclusive, says: "whether anything closes those of the others", story: goaway(0, keepers(20, "node-2"))},
		{name: "less than its share", want: Inconclusive, says: "1 of 30", story: goaway(0.02, keepers(0.5, append(make([]string, 0), "node-2", "node-1", "node-3", "node-1", "node-3", "node-1", "node-3", "node-1", "node-3", "node-1", "node-3", "node-1", "node-3", "node-1", "node-3",
			"node-1", "node-3", "node-1", "node-3", "node-1", "node-3", "node-1", "node-3", "node-1", "node-3", "node-1", "node-3", "node-1", "node-3", "node-1")...))},
		// Cases that may have another cause.
		{name: "the next fault comes too early", want: Inconclusive, says: "too few", story: func() *story {
			return keepers(0).fault("again", "kill", "node-3", "kube-apiserver", 31, 45)
		}},
		{name: "they all ask one server, by their address perhaps", want: Inconclusive, says: "choose by their address", story: func() *story {
			return keepers(0).change(func(r *record.Run) {
				for i := range r.ClientProbes {
					r.ClientProbes[i].V.Server = "node-1"
				}
			})
		}},
		{name: "a starved harness", want: Inconclusive, says: "starved", story: func() *story {
			return keepers(0.5, others...).change(func(r *record.Run) {
				for i := 30; i < 50; i++ {
					r.Harness[i].V.Late = 2 * time.Second
				}
			})
		}},
		{name: "a starved harness does not keep connections open", want: Fail, story: func() *story {
			return keepers(0).change(func(r *record.Run) {
				for i := 30; i < 50; i++ {
					r.Harness[i].V.Late = 2 * time.Second
				}
			})
		}},
		// Cases that may hide a broken cluster.
		{name: "new clients only", want: Inconclusive, says: "no client that keeps", story: func() *story {
			s := newStory().fault("stop", "stop", "node-2", "kube-apiserver", 10, 25).client("client-go-1", "node-1", true, 1, 10).client("client-go-2", "node-2", true, 1, 10)
			for i := range 30 {
				p := fresh("balancer", "node-2", 200, 35+float64(i)/3)
				p.Client = fmt.Sprintf("kept-%d", i)
				add(s, &s.run.ClientProbes, p)
			}
			return s
		}},
		{name: "servers that do not say who they are", want: Inconclusive, says: "whose certificate names no node", story: func() *story {
			return keepers(0).change(func(r *record.Run) {
				for i := range r.ClientProbes {
					r.ClientProbes[i].V.Server = ""
				}
			})
		}},
		{name: "it stands by", want: NotApplicable, says: "one API server at a time", story: func() *story {
			return keepers(0).change(func(r *record.Run) {
				r.Backends = append(r.Backends, record.Timed[record.Backend]{At: sec(40), V: record.Backend{Name: "node-2", Standby: true}})
			})
		}},
		{name: "a zone", want: Inconclusive, says: "which is not a control-plane node", story: func() *story {
			return keepers(0).change(func(r *record.Run) {
				r.Faults[0].V.Node, r.Faults[0].V.Nodes, r.Faults[0].V.Target = "", []string{"node-2"}, "zone/b"
			})
		}},
		{name: "no balancer", want: NotApplicable, story: func() *story {
			return keepers(0).change(func(r *record.Run) { r.Meta.Entrances = r.Meta.Entrances[1:] })
		}},
	})
}
