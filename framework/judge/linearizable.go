package judge

import "time"

func linearizable() definition {
	return definition{Doc{
		Name:      "linearizable",
		Invariant: "HA-INV-001",
		Lasting:   true,
		Guarantee: "The history of reads and writes is linearizable: every quorum read and list returns the newest acknowledged write or deletion, an acknowledged write is never lost, and of several updates of one version exactly one wins.",
		Source:    "Automated HA master deployment; Kubernetes API concepts (resource versions)",
	}, func(m *matter) finding { return judgeLinearizable(m, linearizeLimit) }}
}

func judgeLinearizable(m *matter, limit time.Duration) finding {
	return judgeWithin(m, limit, searchRoom)
}

func judgeWithin(m *matter, limit time.Duration, room int64) finding {
	h, problem := newKeyHistories(m, apiKubernetes)
	if problem != nil {
		return *problem
	}
	if len(h.keys) == 0 {
		return notApplicable("the record has no reads and writes of single keys through an API server")
	}
	if h.writes == 0 || h.reads == 0 {
		return inconclusive("there was too little traffic: %d writes and %d quorum reads succeeded", h.writes, h.reads).
			counted("%d writes, %d reads", h.writes, h.reads)
	}
	if f := h.judge(limit, room); f.verdict != Pass {
		return f
	}
	return m.met(passed("The history of %s on %d keys is linearizable; no acknowledged write is lost.", h.traffic("quorum"), len(h.keys)), h.after).counted("%s", h.size())
}
