package judge

import (
	"time"

	"github.com/holdfast-ha/holdfast/framework/record"
)

// definition is a judge: its description and its function.
type definition struct {
	Doc
	judge func(*matter) finding
}

// finding is what a judge found, before the rules that hold for all are applied.
type finding struct {
	verdict  Verdict
	sentence string
	measured string
	value    *time.Duration
	evidence []string
	exhibit  *Exhibit
	// bound replaces the check's bound in the result where set.
	bound *Bound
	// timed marks a failure that rests on a measured time, between from and
	// to: a starved harness may have caused it.
	timed    bool
	from, to record.Nanos
}
