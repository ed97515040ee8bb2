package judge

import (
	"testing"

	"github.com/holdfast-ha/holdfast/framework/record"
)

// fresh is a probe on a new connection that the API server of a node has answered.
func fresh(entrance, server string, status int, at float64) record.Probe {
	p := record.Probe{Entrance: entrance, Server: server, Kind: record.ProbeQuorumRead, Start: sec(at), End: sec(at + 0.02), Status: status, OK: status == 200}
	if !p.OK {
		p.Error = "refused"
	}
	return p
}

func TestDrainedByReadiness(t *testing.T) {
	// The API server of node-2 is stopped at 10 s and listens until 15 s.
	stopped := func() *story {
		s := newStory().fault("stop", "stop", "node-2", "kube-apiserver", 10, 30).at(1).backend("node-2", true, 0)
		for at := range steps(9, 25, 1) {
			status := 200
			if at > 15 {
				status = 0
			}
			s.probe(fresh("node-2", "node-2", status, at))
		}
		return s
	}
	out := func(at float64) *story { return stopped().at(at+0.2).backend("node-2", false, at) }
	rule(t, record.Check{Requirement: "HA-CL-012", Judge: "drained-by-readiness", Fault: "stop"}, []ruling{
		{name: "as it should be", want: Pass, took: "2s", says: "took node-2 out 2s after the call", story: func() *story { return out(12) }},
		{name: "when the port was closed", want: Fail, says: "node-2 was taken out 8s after the call", story: func() *story { return out(18) }},
		{name: "never", want: Fail, says: "node-2 was still in use", story: stopped},
		{name: "after it was started again", want: Fail, says: "was still in use", story: func() *story { return out(31) }},
		{name: "at the same time", want: Inconclusive, says: "it is not known which came first", story: func() *story { return out(15.5) }},
		{name: "a balancer that tells the time to the second", want: Inconclusive, story: func() *story { return out(16.9) }},
		{name: "a balancer that does not tell since when", want: Pass, says: "2.2s after", story: func() *story {
			return stopped().at(12.2).backend("node-2", false, 0)
		}},
		{name: "out before", want: Inconclusive, says: "did not use", story: func() *story { return stopped().change(func(r *record.Run) { r.Backends[0].V.Up = false }) }},
		{name: "it stood by", want: NotApplicable, story: func() *story {
			return stopped().change(func(r *record.Run) { r.Backends[0].V.Up, r.Backends[0].V.Standby = false, true })
		}},
		{name: "nothing asked the server itself", want: Inconclusive, says: "does not show", story: func() *story {
			return out(12).change(func(r *record.Run) { r.Probes = nil })
		}},
		{name: "it never stopped listening", want: Inconclusive, says: "does not show", story: func() *story {
			return out(12).change(func(r *record.Run) {
				for i := range r.Probes {
					r.Probes[i].V.Status, r.Probes[i].V.OK = 200, true
				}
			})
		}},
		{name: "a balancer that reports nothing", want: Inconclusive, says: "reported nothing", story: func() *story { return stopped().change(func(r *record.Run) { r.Backends = nil }) }},
		{name: "a balancer that never tells", want: NotApplicable, story: func() *story {
			return stopped().change(func(r *record.Run) { r.Backends[0].V = record.Backend{Missing: "by NGINX"} })
		}},
	})
}
