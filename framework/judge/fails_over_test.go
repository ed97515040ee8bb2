package judge

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/framework/record"
)

// turned is a record of three clients with a list of addresses: two begin on node-1,
// which is killed at 20 s, one on node-2. A request that begins at failedAt fails.
func turned(failedAt float64, others string) *story {
	s := newStory().fault("first", "kill", "node-1", "kube-apiserver", 20, 26)
	for t := 10.0; t < 40; t++ {
		for client, address := range map[int]string{1: "10.77.0.11", 2: "10.77.0.11", 3: "10.77.0.12"} {
			if t >= 20 && client < 3 {
				address = "10.77.0.13"
			}
			op := during(t, t+0.5)
			op.Type, op.Entrance, op.Purpose = record.OpGet, "failover", "failover"
			op.Client, op.Address = fmt.Sprintf("failover/%d", client), address+":6443"
			if t == failedAt && client == 1 {
				op.Outcome, op.Error = record.Refused, "503"
			}
			s.op(op)
		}
		for _, node := range []string{"node-1", "node-2", "node-3"} {
			ok := node != "node-1" || t < 20 || t >= 26
			if node != "node-1" && others == "down" {
				ok = false
			}
			if others == "unseen" {
				continue
			}
			add(s, &s.run.Probes, record.Probe{Entrance: node, Kind: record.ProbeRead, OK: ok, Start: sec(t + 0.1), End: sec(t + 0.2)})
		}
	}
	return s
}

// overIPv6 is a record of nodes with IPv6 addresses.
func overIPv6(of func() *story) func() *story {
	six := func(address string) string {
		host, port, found := strings.Cut(strings.Replace(address, "10.77.0.", "fd00::", 1), ":6443")
		if found {
			return "[" + host + "]:6443" + port
		}
		return host
	}
	return func() *story {
		return of().change(func(r *record.Run) {
			for i := range r.Meta.Nodes {
				r.Meta.Nodes[i].Address = six(r.Meta.Nodes[i].Address)
			}
			for i := range r.Nodes {
				r.Nodes[i].V.Node.Address = six(r.Nodes[i].V.Node.Address)
			}
			for i := range r.Ops {
				r.Ops[i].V.Address = six(r.Ops[i].V.Address)
			}
			for i := range r.Backends {
				r.Backends[i].V.Address = six(r.Backends[i].V.Address)
			}
		})
	}
}

// shutsDown has an API server that is shutting down refuse the requests of failover/1 for a time.
func shutsDown(from, to float64) func(*record.Run) {
	return func(r *record.Run) {
		for i := range r.Ops {
			if o := &r.Ops[i].V; o.Client == "failover/1" && o.Call >= sec(from) && o.Call < sec(to) {
				o.Outcome, o.Error = record.Refused, "status 429: The apiserver is shutting down, please try again later."
			}
		}
	}
}

func TestFailsOver(t *testing.T) {
	check := record.Check{Requirement: "HA-CL-001", Judge: "fails-over", Fault: "first", Params: map[string]string{"faults": "first"}}
	rule(t, check, []ruling{
		{name: "moved on", want: Pass, says: "None of 90 requests of 3 clients", story: func() *story { return turned(0, "") }},
		{name: "moved on over IPv6", want: Pass, says: "None of 90 requests of 3 clients with a list of addresses failed: they started at 2 of these addresses, and moved on 2 times from one that was hit", story: overIPv6(func() *story { return turned(0, "") })},
		{name: "failed over IPv6 though another one answered", want: Fail, says: "though the API server on node-2 answered others", story: overIPv6(func() *story { return turned(22, "") })},
		{name: "its addresses are names", want: Inconclusive, says: "no client used an API server that was hit", story: func() *story {
			return turned(0, "").change(func(r *record.Run) {
				for i := range r.Ops {
					r.Ops[i].V.Address = strings.Replace(r.Ops[i].V.Address, "10.77.0.", "node-", 1)
				}
			})
		}},
		{name: "failed though another one answered", want: Fail, says: "though the API server on node-2 answered others", story: func() *story { return turned(22, "") }},
		{name: "told to retry by one that shuts down", want: Pass, says: "None of 90 requests", story: func() *story { return turned(22, "").change(shutsDown(22, 24)) }},
		{name: "told to retry, and failed again after the time", want: Fail, says: "a request of failover/1 failed (28.000s to 28.500s)", story: func() *story { return turned(22, "").change(shutsDown(22, 30)) }},
		{name: "told to retry, and failed otherwise", want: Fail, says: "though the API server on node-2 answered others", story: func() *story {
			return turned(24, "").change(shutsDown(22, 23))
		}},
		{name: "told to retry at the end of the record", want: Inconclusive, says: "1 client with a list of addresses made no request after", story: func() *story { return turned(0, "").change(shutsDown(37, 40)) }},
		{name: "failed while the harness stood still", want: Inconclusive, says: "starved", story: func() *story {
			return turned(22, "").change(func(r *record.Run) { r.Harness[23].V.Late = 30 * time.Second })
		}},
		{name: "failed long before the harness stood still", want: Fail, says: "though the API server on node-2 answered others", story: func() *story {
			return turned(22, "").change(func(r *record.Run) { r.Harness[30].V.Late = 30 * time.Second })
		}},
		{name: "failed while none answered", want: Inconclusive, says: "and no API server was seen to answer", story: func() *story { return turned(22, "down") }},
		{name: "failed while nothing was observed", want: Inconclusive, says: "and no API server was seen to answer", story: func() *story { return turned(22, "unseen") }},
		{name: "not queried", want: Inconclusive, says: "no client with a list", story: func() *story {
			return newStory().fault("first", "kill", "node-1", "kube-apiserver", 20, 26)
		}},
		{name: "no client was connected", want: Inconclusive, says: "no client used an API server that was hit", story: func() *story {
			return turned(0, "").change(func(r *record.Run) {
				for i := range r.Ops {
					r.Ops[i].V.Address = "10.77.0.12:6443"
				}
			})
		}},
		{name: "left before it was hit", want: Inconclusive, says: "no client used an API server that was hit", story: func() *story {
			return turned(0, "").change(func(r *record.Run) {
				for i := range r.Ops {
					if r.Ops[i].V.Call >= sec(15) {
						r.Ops[i].V.Address = "10.77.0.13:6443"
					}
				}
			})
		}},
		{name: "left after it was healed", want: Inconclusive, says: "no client used an API server that was hit", story: func() *story {
			return turned(0, "").change(func(r *record.Run) {
				for i := range r.Ops {
					if o := &r.Ops[i].V; o.Call < sec(30) {
						o.Address = "10.77.0.12:6443"
						if o.Call >= sec(27) && o.Client == "failover/1" {
							o.Address = "10.77.0.11:6443"
						}
					}
				}
			})
		}},
		{name: "all began at one", want: Inconclusive, says: "started at the same address", story: func() *story {
			return turned(0, "").change(func(r *record.Run) {
				for i := range r.Ops {
					if r.Ops[i].V.Address == "10.77.0.12:6443" {
						r.Ops[i].V.Address = "10.77.0.11:6443"
					}
				}
			})
		}},
	})
}
