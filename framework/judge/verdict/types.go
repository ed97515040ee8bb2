// Package verdict has the words of a verdict: what a judge says, the bound that it holds a
// value against, and what a report draws of it. Users find them in package judge.
package verdict

import (
	"time"

	"github.com/holdfast-ha/holdfast/framework/record"
)

// Verdict is what a judge says of one requirement.
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

// Exhibit is the smallest part of the history that shows what a judge says of it.
type Exhibit struct {
	// Title says what is to be seen.
	Title string `json:"title"`
	// Spans are the operations and messages, in the order of their begins.
	Spans []Span `json:"spans"`
}

// Span is an operation or a message of an exhibit.
type Span struct {
	// Lane is whose it is: a client or a watch.
	Lane  string       `json:"lane"`
	Label string       `json:"label"` // what it did and what came of it
	From  record.Nanos `json:"from"`
	// To is the same as From for a moment; Open marks an operation that never
	// returned, which ended nowhere.
	To   record.Nanos `json:"to"`
	Open bool         `json:"open,omitempty"`
	// Culprit marks what cannot be explained by the rest.
	Culprit bool `json:"culprit,omitempty"`
}

// Doc describes a judge.
type Doc struct {
	// Name is the judge's name in scenario files.
	Name string
	// Guarantee is what it holds a cluster to, in one sentence.
	Guarantee string
	// Source is where the guarantee comes from.
	Source string
	// Invariant is the requirement that a judge of every run settles in every scenario,
	// whether a check names the judge or not; empty for other judges.
	Invariant string
	// Needs is what of a cluster its observations come from, of what not every provider gives
	// access to. Without it the judge says nothing.
	Needs []record.Access
	// NeedsFault and NeedsBound tell what a check must name.
	NeedsFault, NeedsBound bool
	// BeforeFaults marks a judge of what comes before any fault. It also judges a cluster
	// on which the application of the traffic did not come up, of which no other judge can
	// say anything.
	BeforeFaults bool
	// Lasting says that a violation stays one whatever comes later, so that it is one also
	// where the run was interrupted.
	Lasting bool
	// Coarser says that the guarantee also holds if a fault hits other components of the same
	// node besides the one that it names, as it does if they are one process.
	Coarser bool
	// Params describes each parameter by name, with its default.
	Params map[string]string
}
