package facts

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/holdfast-ha/holdfast/framework/record"
)

// NotUp returns the entry that reports that the application of the traffic did not come up, nil
// if it did or if there is no such entry.
func NotUp(run *record.Run) *record.Timed[record.Steady] {
	for i, s := range run.Steadies {
		if s.V.Phase == record.SteadyApplication && !s.V.OK {
			return &run.Steadies[i]
		}
	}
	return nil
}

// BrokenFromTheStart describes what the cluster could not do before any fault, so that none was
// injected; empty if it could.
func BrokenFromTheStart(run *record.Run) string {
	if s := NotUp(run); s != nil {
		return "the cluster was broken before any fault: " + Problems(s.V)
	}
	return ""
}

func Problems(s record.Steady) string {
	return cmp.Or(strings.Join(s.Problems, "; "), "no reason was recorded")
}

// Unproven says what is missing in the life of a fault; empty if nothing is.
func Unproven(id string, inj *Injection) string {
	failure := ""
	if inj != nil && inj.Failed != nil {
		failure = "; " + inj.Failed.Error
	}
	switch {
	case inj == nil || inj.Injected == nil:
		return fmt.Sprintf("the fault %q was not injected%s", id, failure)
	case !inj.Injected.Proven:
		return fmt.Sprintf("the fault %q (%s) had no proof of effect: %s", id, inj.What(), reason(inj.Injected))
	case inj.Healed == nil:
		return fmt.Sprintf("the fault %q (%s) was not healed%s", id, inj.What(), failure)
	}
	return UnprovenHealing(id, inj)
}

// UnprovenHealing says why nothing proves that a fault was healed; empty if something does.
func UnprovenHealing(id string, inj *Injection) string {
	if inj == nil || inj.Healed == nil || inj.Healed.Proven {
		return ""
	}
	return fmt.Sprintf("the healing of fault %q (%s) had no proof: %s", id, inj.What(), reason(inj.Healed))
}

func reason(f *record.Fault) string { return cmp.Or(f.Error, f.Proof, "no reason was recorded") }
