package judge

import (
	"fmt"
	"strings"

	"github.com/holdfast-ha/holdfast/framework/record"
)

// notUp returns the entry that says that the application of the traffic did not come up, nil
// if it did or there is none.
func notUp(run *record.Run) *record.Timed[record.Steady] {
	for i, s := range run.Steadies {
		if s.V.Phase == record.SteadyApplication && !s.V.OK {
			return &run.Steadies[i]
		}
	}
	return nil
}

// brokenFromTheStart says what the cluster could not do before any fault, so that none was
// injected; empty if it could.
func brokenFromTheStart(run *record.Run) string {
	if s := notUp(run); s != nil {
		return "the cluster was broken before any fault: " + problems(s.V)
	}
	return ""
}

func problems(s record.Steady) string {
	if len(s.Problems) == 0 {
		return "no reason was recorded"
	}
	return strings.Join(s.Problems, "; ")
}

// unproven says what is missing in the life of a fault, or is empty.
func unproven(id string, inj *injection) string {
	failure := ""
	if inj != nil && inj.failed != nil {
		failure = "; " + inj.failed.Error
	}
	switch {
	case inj == nil || inj.injected == nil:
		return fmt.Sprintf("the fault %q was not injected%s", id, failure)
	case !inj.injected.Proven:
		return fmt.Sprintf("the fault %q (%s) had no proof of effect: %s", id, inj.what(), reason(inj.injected))
	case inj.healed == nil:
		return fmt.Sprintf("the fault %q (%s) was not healed%s", id, inj.what(), failure)
	case !inj.healed.Proven:
		return fmt.Sprintf("the healing of fault %q (%s) had no proof: %s", id, inj.what(), reason(inj.healed))
	}
	return ""
}

func reason(f *record.Fault) string {
	switch {
	case f.Error != "":
		return f.Error
	case f.Proof != "":
		return f.Proof
	}
	return "no reason was recorded"
}
