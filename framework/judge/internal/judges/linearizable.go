package judges

import (
	"time"

	"github.com/holdfast-ha/holdfast/framework/judge/internal/facts"
	"github.com/holdfast-ha/holdfast/framework/judge/verdict"
)

var linearizable = Definition{Doc{
	Name:      "linearizable",
	Invariant: "HA-INV-001",
	Lasting:   true,
	Guarantee: "The history of reads and writes is linearizable: every quorum read and list returns the newest acknowledged write or deletion, an acknowledged write is never lost, and of several updates of one version exactly one wins.",
	Source:    "Automated HA master deployment; Kubernetes API concepts (resource versions)",
	Params: map[string]string{
		"attempts": "where the check names a fault: how many operations must have been answered, and how many writes and quorum reads tried, while it lasted, in all and through each API server that it left alone; " +
			"if it lasted for a moment or hit most nodes, how many operations must have been answered after it (default 10, the minimum)",
		"faults": "further injections, separated by commas, that must have taken effect",
	},
}, func(m *facts.Case) Finding { return JudgeLinearizable(m, LinearizeLimit, SearchRoom) }}

func JudgeLinearizable(m *facts.Case, limit time.Duration, room int64) Finding {
	least, problem := countParam(m, "attempts", enoughExposed, enoughExposed)
	if problem != nil {
		return *problem
	}
	h, problem := newKeyHistories(m, facts.APIKubernetes)
	if problem != nil {
		return *problem
	}
	if len(h.keys) == 0 {
		return notApplicable("The record has no reads and writes of single keys through an API server.")
	}
	if h.writes == 0 || h.reads+h.lists == 0 {
		return Inconclusive("too little traffic: %d writes and %d quorum reads succeeded", h.writes, h.reads+h.lists).
			counted("%d writes, %d reads", h.writes, h.reads)
	}
	if f := h.judge(limit, room); f.Verdict != verdict.Pass {
		return f
	}
	return met(m, Passed("The history of %s on %d keys is linearizable; no acknowledged write is lost.", h.traffic("quorum"), len(h.keys)), h.met, least).counted("%s", h.size())
}
