package judges

import (
	"github.com/holdfast-ha/holdfast/framework/judge/internal/facts"
	"github.com/holdfast-ha/holdfast/framework/judge/internal/text"
	"github.com/holdfast-ha/holdfast/framework/record"
)

var etcdAlarms = Definition{Doc{
	Name:      "etcd-alarms",
	Needs:     []record.Access{record.EtcdMembers},
	Invariant: "HA-INV-009",
	Guarantee: "No etcd member has an alarm, except while a fault is active.",
	Source:    "etcd, maintenance (space quota, corruption check); the checks of every run of the catalogue",
}, judgeEtcdAlarms}

func judgeEtcdAlarms(m *facts.Case) Finding {
	answers, during := 0, 0
	for _, e := range m.Run.Etcd {
		switch s := e.V; {
		case !s.OK:
		case len(s.Alarms) == 0:
			answers++
		case len(m.Touching(e.At, e.At, record.Nanos(m.Run.Meta.Settings["M"]))) > 0:
			answers++
			during++
		default:
			return Failed("No etcd member may have an alarm while nothing is broken: the one on %s reported %s %s.", s.Node, text.And(s.Alarms), text.At(e.At)).
				exhibits(facts.Exhibit("An etcd member has an alarm", facts.Blamed(facts.Moment(s.Node, text.And(s.Alarms), e.At))))
		}
	}
	switch {
	case len(m.Run.Etcd) == 0:
		return notApplicable("The record has no status of an etcd member.")
	case answers == 0:
		return Inconclusive("no etcd member was seen to answer, so nothing is known about alarms")
	}
	f := Passed("None of %d answers of etcd members reported an alarm while nothing was broken.", answers).number(answers, "answer")
	if during > 0 {
		f.Sentence = f.Sentence[:len(f.Sentence)-1] + ", though some did while a fault was active."
	}
	return f
}
