// Package verdict has the types of a verdict: a judge's result, the bound that a value is
// compared with, and what a report draws of it. Users find them in package judge.
package verdict

import (
	"time"

	"github.com/holdfast-ha/holdfast/framework/record"
)

// Verdict is what a judge concludes about one requirement.
type Verdict string

const (
	Pass          Verdict = "pass"
	Fail          Verdict = "fail"
	Inconclusive  Verdict = "inconclusive"
	NotApplicable Verdict = "not applicable"
)

// Bound is a limit with the way it was computed.
type Bound struct {
	Formula string                   `json:"formula"`
	Inputs  map[string]time.Duration `json:"inputs"` // by symbol
	Limit   time.Duration            `json:"limit"`
}

// Exhibit is the smallest part of the history that shows what a judge found.
type Exhibit struct {
	// Title says what the exhibit shows.
	Title string `json:"title"`
	// Spans are the operations and messages, in the order of their starts.
	Spans []Span `json:"spans"`
}

// Span is an operation or a message of an exhibit.
type Span struct {
	// Lane is its owner: a client or a watch.
	Lane  string       `json:"lane"`
	Label string       `json:"label"` // what it did and what came of it
	From  record.Nanos `json:"from"`
	// To equals From for a moment; Open marks an operation that never returned and has no end.
	To   record.Nanos `json:"to"`
	Open bool         `json:"open,omitempty"`
	// Culprit marks what the rest cannot explain.
	Culprit bool `json:"culprit,omitempty"`
}

// Period is a part of a record's time.
type Period struct {
	From record.Nanos `json:"from"`
	To   record.Nanos `json:"to"`
}

// Doc describes a judge.
type Doc struct {
	// Name is the judge's name in scenario files.
	Name string
	// Guarantee is the guarantee that it checks, in one sentence.
	Guarantee string
	// Source is where the guarantee comes from.
	Source string
	// Invariant is the requirement that a judge of every run checks in every scenario, whether a
	// check names the judge or not; empty for other judges.
	Invariant string
	// Needs is the access to the cluster that its observations need and that not every provider
	// gives. Without it the judge concludes nothing.
	Needs []record.Access
	// NeedsFault and NeedsBound report what a check must name.
	NeedsFault, NeedsBound bool
	// BeforeFaults marks a judge of the time before any fault. It also judges a cluster on which
	// the application of the traffic did not come up, about which no other judge can conclude
	// anything.
	BeforeFaults bool
	// Lasting reports that later observations cannot cancel a violation, so that it counts even
	// if the run was interrupted. A violation that rests on a measured time never does.
	Lasting bool
	// Coarser reports that the guarantee also holds if a fault hits other components of the same
	// node in addition to the named one, as it does if they are one process.
	Coarser bool
	// Killed reports that the guarantee also holds if a component that was to stop gracefully had
	// to be killed at the end of its grace period: it is about what happens before, or once the
	// component is gone.
	Killed bool
	// HealsItself reports that the guarantee is what heals the fault. If nothing proves that it was healed,
	// the judge may still find a violation.
	HealsItself bool
	// Params describes each parameter by name, with its default.
	Params map[string]string
	// Values are the values of the parameters that accept no others.
	Values map[string][]string
}
