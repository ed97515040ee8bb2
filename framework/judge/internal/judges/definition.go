package judges

import (
	"time"

	"github.com/holdfast-ha/holdfast/framework/judge/internal/facts"
	"github.com/holdfast-ha/holdfast/framework/judge/verdict"
	"github.com/holdfast-ha/holdfast/framework/record"
)

// Definition is a judge: its description and its function.
type Definition struct {
	verdict.Doc
	Judge func(*facts.Matter) Finding
}

// Finding is what a judge found, before the common rules are applied.
type Finding struct {
	Verdict  verdict.Verdict
	Sentence string
	Measured string
	Value    *time.Duration
	Evidence []string
	Exhibit  *verdict.Exhibit
	// Bound replaces the check's bound in the result where set.
	Bound *verdict.Bound
	// Timed marks a failure that rests on a measured time, between from and
	// to: a starved harness may have caused it.
	Timed    bool
	From, To record.Nanos
	// Optional means that NotApplicable is about something that the cluster need not have, so that
	// the rest of the requirement stands without it.
	Optional bool
}
