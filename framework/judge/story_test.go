package judge

import (
	"fmt"
	"iter"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/framework/judge/internal/facts"
	"github.com/holdfast-ha/holdfast/framework/record"
)

// sec is a time on the record's clock, in seconds.
func sec(s float64) record.Nanos { return record.Nanos(s * float64(time.Second)) }

// story is a record made by hand.
type story struct {
	run *record.Run
	now record.Nanos
}

// newStory is a complete and healthy record of three nodes and 60 s, with no
// observations but the steady states and the harness's own health.
func newStory(checks ...record.Check) *story {
	all := []string{"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler"}
	s := &story{run: &record.Run{
		Meta: record.Meta{
			Version: record.Version, Run: "r", Scenario: "by-hand",
			Nodes: []record.Node{
				{Name: "node-1", Address: "10.77.0.11", Components: all},
				{Name: "node-2", Address: "10.77.0.12", Components: all},
				{Name: "node-3", Address: "10.77.0.13", Components: all},
			},
			Entrances: []string{"balancer", "node-1", "node-2", "node-3"},
			Settings: map[string]time.Duration{
				"L": 15 * time.Second, "R": 10 * time.Second, "P": 2 * time.Second, "T": 15 * time.Second,
				"I": 10 * time.Second, "E": time.Second, "H": 2 * time.Second, "M": 2 * time.Second,
			},
			Checks: checks,
		},
		Complete: true, EndAt: sec(60),
	}}
	s.steady("before", true, 0)
	s.at(59).steady("after", true, 3*time.Second)
	for i := range 61 {
		s.at(float64(i)).harness(2 * time.Millisecond)
	}
	return s
}

// at sets the time for the observations that follow.
func (s *story) at(t float64) *story { s.now = sec(t); return s }

func add[T any](s *story, list *[]record.Timed[T], v T) *story {
	*list = append(*list, record.Timed[T]{At: s.now, V: v})
	return s
}

func (s *story) harness(late time.Duration) *story {
	return add(s, &s.run.Harness, record.Harness{Late: late})
}

// loaded has seven tasks share each CPU until the end, so that a measured time proves nothing.
func (s *story) loaded() *story {
	s.run.Harness = nil
	for at := record.Nanos(0); at <= s.run.EndAt; at += sec(1) {
		s.run.Harness = append(s.run.Harness, record.Timed[record.Harness]{At: at, V: record.Harness{Queue: 7}})
	}
	return s
}

func (s *story) steady(phase string, ok bool, took time.Duration, problems ...string) *story {
	return add(s, &s.run.Steadies, record.Steady{Phase: phase, OK: ok, Took: took, Limit: 20 * time.Second, Problems: problems})
}

// part is what was seen of one more part of the steady state; with problems it was not.
func (s *story) part(name string, took time.Duration, problems ...string) *story {
	return add(s, &s.run.Steadies, record.Steady{Phase: record.SteadyPart, Part: name, OK: len(problems) == 0, Took: took, Limit: 43800 * time.Millisecond, Problems: problems})
}

// effects are those of the faults in stories, as framework/fault has them.
var effects = map[string][]record.Effect{
	"black-hole":       {record.EffectNetwork, record.EffectPartitioned},
	"clock-jump":       {record.EffectClock},
	"compact":          {record.EffectCompacted},
	"crash-loop":       {record.EffectRestarted},
	"disk-slow":        {record.EffectDisk},
	"freeze":           {record.EffectFrozen},
	"isolate":          {record.EffectNetwork, record.EffectIsolated},
	"isolate-etcd":     {record.EffectNetwork, record.EffectIsolated},
	"kill":             {record.EffectDown},
	"lease-steal":      {record.EffectLease},
	"pause":            {record.EffectFrozen},
	"power-off":        {record.EffectDown, record.EffectPower},
	"reboot":           {record.EffectRestarted, record.EffectPower},
	"remove-member":    {record.EffectRemoved},
	"restart":          {record.EffectRestarted},
	"restore-snapshot": {record.EffectRestored},
	"split":            {record.EffectNetwork, record.EffectPartitioned},
	"stop":             {record.EffectDown},
}

// fault is a proven injection that is proven to be healed.
func (s *story) fault(id, name, node, component string, injected, healed float64) *story {
	f := record.Fault{ID: id, Name: name, Target: node, Node: node, Component: component, Effects: effects[name], Phase: record.FaultInjected,
		Called: sec(injected) - 1000, Effect: sec(injected), Proven: true, Proof: "gone"}
	s.at(injected)
	add(s, &s.run.Faults, f)
	f.Phase, f.Called, f.Effect = record.FaultHealed, sec(healed), sec(healed+1)
	s.at(healed + 1)
	return add(s, &s.run.Faults, f)
}

func (s *story) op(op record.Op) *story {
	if op.API == "" {
		op.API = "kubernetes"
	}
	if op.Outcome == "" {
		op.Outcome = record.OK
	}
	if op.Client == "" {
		op.Client = "c-" + op.Entrance
	}
	s.now = op.Return
	return add(s, &s.run.Ops, op)
}

func during(from, to float64) record.Op { return record.Op{Call: sec(from), Return: sec(to)} }

// write is an acknowledged create or update; a number is its revision.
func (s *story) write(typ record.OpType, entrance, key, value string, rev int, from, to float64) *story {
	o := during(from, to)
	o.Type, o.Entrance, o.Key, o.Value = typ, entrance, key, value
	if rev > 0 {
		o.Revision = fmt.Sprint(rev)
	}
	return s.op(o)
}

// read is an answered quorum read; an empty value is an absent key.
func (s *story) read(entrance, key, value string, rev int, from, to float64) *story {
	o := during(from, to)
	o.Type, o.Entrance, o.Key, o.Value, o.Found = record.OpGet, entrance, key, value, value != ""
	if rev > 0 {
		o.Revision = fmt.Sprint(rev)
	}
	return s.op(o)
}

// purpose marks the last operation.
func (s *story) purpose(p string) *story { s.last().Purpose = p; return s }

func (s *story) last() *record.Op { return &s.run.Ops[len(s.run.Ops)-1].V }

// outcome changes the last operation's outcome.
func (s *story) outcome(o record.Outcome) *story {
	l := s.last()
	l.Outcome, l.Error = o, "timed out"
	if o != record.OK {
		l.Revision = ""
	}
	return s
}

// steps yields from, from+by, ... below to, without adding up errors.
func steps(from, to, by float64) iter.Seq[float64] {
	return func(yield func(float64) bool) {
		for i := 0; from+float64(i)*by < to-1e-9; i++ {
			if !yield(from + float64(i)*by) {
				return
			}
		}
	}
}

// traffic makes a client write and read its own key through an entrance every 0.1 s from from to
// to, answered immediately.
func (s *story) traffic(entrance string, from, to float64) *story {
	n := 0
	key := fmt.Sprintf("k-%s-%g", entrance, from)
	for t := range steps(from, to, 0.2) {
		n++
		typ := record.OpUpdate
		if n == 1 {
			typ = record.OpCreate
		}
		v, rev := fmt.Sprintf("v%d", n), 100+int(t*10) // one store: later writes have greater versions
		s.write(typ, entrance, key, v, rev, t, t+0.01).read(entrance, key, v, rev, t+0.1, t+0.11)
	}
	return s
}

// failing makes a client try to write and read without success every 0.5 s.
func (s *story) failing(entrance string, from, to float64) *story {
	for t := range steps(from, to, 0.5) {
		s.write(record.OpUpdate, entrance, "f", fmt.Sprintf("f-%s-%g", entrance, t), 0, t, t+0.2).outcome(record.Unknown)
		s.read(entrance, "f", "", 0, t+0.2, t+0.4).outcome(record.Unknown)
	}
	return s
}

func (s *story) probe(p record.Probe) *story { s.now = p.End; return add(s, &s.run.Probes, p) }

// probes lets quorum reads, writes and reads probe an entrance every 0.1 s.
func (s *story) probes(entrance string, ok bool, from, to float64) *story {
	for t := range steps(from, to, 0.1) {
		for i := range 6 {
			kind := []record.ProbeKind{record.ProbeQuorumRead, record.ProbeWrite, record.ProbeRead}[i/2]
			s.probe(record.Probe{Entrance: entrance, Reused: i&1 > 0, Kind: kind, Start: sec(t), End: sec(t + 0.05), OK: ok})
		}
	}
	return s
}

func (s *story) endpoints(via string, addresses ...string) *story {
	for _, source := range facts.Sources {
		add(s, &s.run.Endpoints, record.Endpoints{Source: source, Via: via, Addresses: addresses, Sample: true})
	}
	return s
}

func (s *story) lease(name, holder string, rev int, renew float64) *story {
	node, _, _ := strings.Cut(holder, "_")
	return add(s, &s.run.Leases, record.Lease{Name: name, Via: "node-1", Holder: holder, HolderNode: node, Duration: 15,
		Renew: time.Unix(0, 0).Add(time.Duration(sec(renew))), Revision: fmt.Sprint(rev)})
}

func (s *story) etcd(node, leader string, term uint64) *story {
	return add(s, &s.run.Etcd, record.EtcdStatus{Node: node, OK: true, Cluster: "c1", Member: "m" + node[len(node)-1:], Leader: leader,
		Term: term, RaftIndex: uint64(len(s.run.Etcd)), Members: []string{"m1", "m2", "m3"}})
}

func (s *story) process(node, component string, pid int) *story {
	return add(s, &s.run.Processes, record.ProcessState{Node: node, Component: component, PID: pid, State: "S"})
}

// change lets a case differ from what it is made of.
func (s *story) change(f func(*record.Run)) *story { f(s.run); return s }

// ruling is a case of a judge's table: a history and the expected finding.
type ruling struct {
	name  string
	story func() *story
	want  Verdict
	says  string // part of the sentence
	took  string // Measured, if it matters
}

// rule runs a judge's table through Evaluate, with the check as a scenario
// would name it.
func rule(t *testing.T, check record.Check, cases []ruling) {
	t.Helper()
	if check.Level == "" {
		check.Level = "MUST"
	}
	for _, tt := range cases {
		t.Run(tt.name, func(t *testing.T) {
			s := tt.story()
			if s.run.Meta.Checks == nil {
				s.run.Meta.Checks = []record.Check{check}
			}
			r := Evaluate(s.run)[0]
			if r.Verdict != tt.want || !strings.Contains(r.Sentence, tt.says) || tt.took != "" && r.Measured != tt.took {
				t.Errorf("verdict %q (want %q), measured %q (want %q)\nsentence: %s\nwant:     %s\nevidence: %s",
					r.Verdict, tt.want, r.Measured, tt.took, r.Sentence, tt.says, strings.Join(r.Evidence, "\n          "))
			}
			if r.Sentence == "" || r.Requirement != check.Requirement && s.run.Meta.Checks[0].Requirement == check.Requirement {
				t.Errorf("result lacks what it is about: %+v", r)
			}
			t.Log(r.Verdict, "-", r.Sentence)
		})
	}
}
