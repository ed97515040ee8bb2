package judge

import "time"

// Result is the verdict on one requirement from one record.
type Result struct {
	Requirement string  `json:"requirement"`
	Level       string  `json:"level" jsonschema:"enum=MUST,enum=SHOULD,enum=INFO"`
	Scenario    string  `json:"scenario"`
	Judge       string  `json:"judge"`
	Verdict     Verdict `json:"verdict"`
	// Justified means that it does not apply because of the cluster's design: the requirement has no
	// meaning there. Otherwise, what does not apply cannot be tested here.
	Justified bool   `json:"justified,omitempty"`
	Bound     *Bound `json:"bound,omitempty"`
	// Measured is the value that was compared with the bound, as text: "1.19s", "3 of 3".
	Measured string `json:"measured,omitempty"`
	// MeasuredDuration is the same as a duration, if it is one.
	MeasuredDuration *time.Duration `json:"measuredDuration,omitempty"`
	// Sentence describes the finding in one sentence: guarantee, who or where, bound and value.
	Sentence string `json:"sentence"`
	// Evidence are the lines of the record or facts that show it, few and short.
	Evidence []string `json:"evidence,omitempty"`
	// Violated is when a failed guarantee was violated, if the judge can say.
	Violated *Period `json:"violated,omitempty"`
	// Exhibit is what a report draws for it, if there is anything to draw.
	Exhibit *Exhibit `json:"exhibit,omitempty"`
}
