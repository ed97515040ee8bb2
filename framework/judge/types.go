package judge

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
	Inputs  map[string]time.Duration `json:"inputs"` // nanoseconds, by symbol
	Limit   time.Duration            `json:"limit"`  // nanoseconds
}

// Result is the verdict on one requirement from one record.
type Result struct {
	Requirement string  `json:"requirement"`
	Level       string  `json:"level"`
	Scenario    string  `json:"scenario"`
	Judge       string  `json:"judge"`
	Verdict     Verdict `json:"verdict"`
	Bound       *Bound  `json:"bound,omitempty"`
	// Measured is the value that was held against the bound, for people:
	// "1.19s", "3 of 3".
	Measured string `json:"measured,omitempty"`
	// MeasuredNanos is the same as a duration where it is one.
	MeasuredNanos *time.Duration `json:"measuredNanos,omitempty"`
	// Sentence says in one sentence what was found: guarantee, who or where,
	// bound and value.
	Sentence string `json:"sentence"`
	// Evidence are the lines of the record or facts that show it, few and short.
	Evidence []string `json:"evidence,omitempty"`
	// Exhibit is what a report draws of it, where there is anything to draw.
	Exhibit *Exhibit `json:"exhibit,omitempty"`
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
