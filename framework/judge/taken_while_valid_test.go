package judge

import (
	"slices"
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/framework/record"
)

// besides has node-3 take the lease over 2 s after node-2 renewed it; both act from then on.
func besides() *story {
	s := takenOver()
	for i := range 12 {
		s.action("node-2", 11.5+float64(i)).action("node-3", 11.7+float64(i))
	}
	return s
}

// takenOver has node-3 take the lease over at 11 s, which node-2 renewed at 9 s; all API servers answer.
func takenOver() *story {
	s := newStory().at(0.5).process("node-2", "kube-scheduler", 31)
	s.renews("node-2", 1, 10).renews("node-3", 11, 50).probes("node-2", true, 1, 58)
	for i, renewed := range []float64{3, 5, 7, 9} {
		s.at(renewed+0.5).lease("kube-scheduler", "node-2_x", 103+i, renewed)
	}
	return s.at(11.5).lease("kube-scheduler", "node-3_y", 110, 11)
}

// released has the lease be seen without a holder before node-3 takes it.
func released(s *story) *story {
	s.at(10.5).lease("kube-scheduler", "", 109, 10.4)
	return s.change(func(r *record.Run) {
		for i := range r.Leases {
			if l := &r.Leases[i].V; l.Holder == "node-3_y" {
				l.Revision = "110"
			}
		}
		sortTimed(r.Leases)
	})
}

// outlasted is succession, of a lease that lasts 60 s.
func outlasted() *story {
	s := succession().action("node-2", 40).at(0.5).process("node-2", "kube-scheduler", 31)
	s.at(9.5).lease("kube-scheduler", "node-2_x", 103, 9).at(26.5).lease("kube-scheduler", "node-3_y", 108, 26)
	return s.change(func(r *record.Run) {
		r.Meta.Elections = map[string]map[string]time.Duration{"kube-scheduler": {"L": time.Minute, "R": 40 * time.Second, "P": 2 * time.Second}}
		for i := range r.Leases {
			r.Leases[i].V.Duration = 60
		}
	})
}

func TestTakenWhileValid(t *testing.T) {
	lastState := func(s *story, f func(*record.Timed[record.Lease])) *story {
		f(&s.run.Leases[len(s.run.Leases)-1])
		return s
	}
	wide(t, "one-actor", []ruling{
		{name: "stolen while it was valid, its node silent for a moment", want: Fail, story: func() *story {
			s := besides().at(10)
			add(s, &s.run.Processes, record.ProcessState{Node: "node-2", Component: "kube-scheduler", Error: "no answer"})
			return s.at(10.5).process("node-2", "kube-scheduler", 31)
		}, says: "and it was valid until"},
		{name: "stolen while it was valid", want: Fail, story: besides,
			says: "the one on node-3 took over the lease at 11.000s, though the one on node-2 had renewed it at 9.000s and it was valid until 24.000s, and that one acted at 13.500s"},
		{name: "a lease of a minute, stolen after 17 s", want: Fail, says: "it was valid until 69.000s, and that one acted at 40.000s", story: outlasted},
		{name: "a lease of a minute, though the settings say less", want: Fail, says: "it was valid until 69.000s", story: func() *story {
			return outlasted().change(func(r *record.Run) { r.Meta.Elections["kube-scheduler"]["L"] = 50 * time.Second })
		}},
		{name: "a lease that has run out", want: Pass, story: func() *story {
			return outlasted().change(func(r *record.Run) {
				for i := range r.Leases {
					r.Leases[i].V.Duration = 15
				}
			})
		}},
		{name: "by the measuring margin too early", want: Pass, story: func() *story {
			return besides().change(func(r *record.Run) {
				for i := range r.Leases {
					r.Leases[i].V.Duration = 4
				}
			})
		}},
		{name: "while another fault was active", want: Fail, says: "it was valid until 24.000s", story: func() *story {
			return besides().fault("kill", "kill", "node-1", "etcd", 10, 30)
		}},
		{name: "by a fault", want: Pass, says: "on node-2 acted 12 times at the same time as the one on node-3", story: func() *story {
			return besides().fault("steal", "lease-steal", "node-2", "kube-scheduler", 10, 30)
		}},
		{name: "after a fault", want: Fail, says: "it was valid until 24.000s", story: func() *story {
			return besides().fault("steal", "lease-steal", "node-2", "kube-scheduler", 1, 3)
		}},
		{name: "deleted by a fault with unknown effects", want: Pass, story: func() *story {
			return besides().fault("delete", "lease-delete", "node-2", "kube-scheduler", 10, 30)
		}},
		{name: "while an older state was restored", want: Pass, story: func() *story {
			return besides().fault("restore", "restore-snapshot", "node-1", "etcd", 8, 30)
		}},
		{name: "while clocks were apart", want: Pass, story: func() *story {
			return besides().fault("clock", "clock-jump", "node-1", "", 8, 30)
		}},
		{name: "released, and acts for long", want: Fail, says: "the one on node-3 had taken over by 11.010s, and the one on node-2, which had released its lease by 10.500s, acted at 13.500s", story: func() *story {
			return released(besides())
		}},
		{name: "released, and acts for a moment", want: Pass, story: func() *story { return released(takenOver()).action("node-2", 11.5) }},
		{name: "released, and frozen", want: Pass, story: func() *story {
			return released(takenOver()).fault("freeze", "freeze", "node-2", "kube-scheduler", 10.6, 19).action("node-2", 21)
		}},
		{name: "released, and elected again", want: Pass, story: func() *story {
			return released(takenOver()).renews("node-2", 52, 58).action("node-2", 54).at(52.5).lease("kube-scheduler", "node-2_x", 140, 52)
		}},
		{name: "released when a fault had taken the lease", want: Pass, story: func() *story {
			return released(besides()).fault("steal", "lease-steal", "node-2", "kube-scheduler", 9.5, 10.2)
		}},
		{name: "released by another instance", want: Pass, story: func() *story {
			s := takenOver().at(10.2).lease("kube-scheduler", "node-1_z", 108, 10)
			return released(s).change(func(r *record.Run) { sortTimed(r.Leases) }).action("node-2", 15)
		}},
		{name: "deleted", want: Pass, story: func() *story {
			return lastState(besides(), func(l *record.Timed[record.Lease]) { l.At, l.V = sec(10.5), record.Lease{Name: l.V.Name, Via: l.V.Via} }).
				at(11.5).lease("kube-scheduler", "node-3_y", 109, 11)
		}},
		{name: "a third one in between", want: Pass, story: func() *story {
			return lastState(besides(), func(l *record.Timed[record.Lease]) { l.V.Transitions = 2 })
		}},
		{name: "deleted and created in between, unseen", want: Pass, story: func() *story {
			return besides().change(func(r *record.Run) {
				for i := range r.Leases[:4] {
					r.Leases[i].V.Transitions = 3
				}
			})
		}},
		{name: "not seen to be taken over", want: Pass, story: func() *story {
			return besides().change(func(r *record.Run) { r.Leases = r.Leases[:4] })
		}},
		{name: "from one that was started again in between", want: Pass, story: func() *story {
			return besides().at(12).process("node-2", "kube-scheduler", 77)
		}},
		{name: "from one that exited soon afterwards", want: Pass, story: func() *story {
			return besides().at(16).process("node-2", "kube-scheduler", 0)
		}},
		{name: "from one of which no process was seen", want: Pass, story: func() *story {
			return besides().change(func(r *record.Run) { r.Processes = nil })
		}},
		{name: "from one that acted right afterwards only", want: Pass, story: func() *story {
			return besides().change(func(r *record.Run) {
				r.Actions = slices.DeleteFunc(r.Actions, func(a record.Timed[record.Action]) bool {
					return a.V.Node == "node-2" && a.V.Received > sec(13)
				})
			})
		}},
		{name: "from one whose act had waited", want: Pass, story: func() *story {
			return besides().change(func(r *record.Run) { r.Probes = nil })
		}},
		{name: "by a clock that is ahead", want: Pass, story: func() *story {
			return besides().action("node-2", 24).lastAction(func(a *record.Timed[record.Action]) { a.At = sec(20) })
		}},
		{name: "another lease", want: Pass, story: func() *story {
			return besides().change(func(r *record.Run) {
				for i := range r.Actions {
					if a := &r.Actions[i].V; a.Election && a.Node == "node-3" {
						a.Name = "cloud-provider-extraction-migration"
					}
				}
			})
		}},
	})
}
