package judge

import "github.com/holdfast-ha/holdfast/framework/record"

func etcdAlarms() definition {
	return definition{Doc{
		Name:      "etcd-alarms",
		Invariant: "HA-INV-009",
		Guarantee: "No etcd member has an alarm, apart from the time that a fault is in force.",
		Source:    "etcd, maintenance (space quota, corruption check); the checks of every run of the catalogue",
	}, judgeEtcdAlarms}
}

func judgeEtcdAlarms(m *matter) finding {
	answers, during := 0, 0
	for _, e := range m.run.Etcd {
		switch s := e.V; {
		case !s.OK:
		case len(s.Alarms) == 0:
			answers++
		case len(m.touching(e.At, e.At, record.Nanos(m.run.Meta.Settings["M"]))) > 0:
			answers++
			during++
		default:
			return failed("No etcd member may have an alarm while nothing is broken: the one on %s reported %s %s.", s.Node, and(s.Alarms), at(e.At))
		}
	}
	switch {
	case len(m.run.Etcd) == 0:
		return notApplicable("the record has no status of an etcd member")
	case answers == 0:
		return inconclusive("no etcd member was seen to answer, so nothing is known of alarms")
	}
	f := passed("None of %d answers of etcd members told of an alarm while nothing was broken.", answers).counted("%d answers", answers)
	if during > 0 {
		f.sentence = f.sentence[:len(f.sentence)-1] + ", though some did while a fault was in force."
	}
	return f
}
