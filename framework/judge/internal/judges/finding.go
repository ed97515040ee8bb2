package judges

import (
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-ha/holdfast/framework/judge/internal/facts"
	"github.com/holdfast-ha/holdfast/framework/judge/internal/text"
	"github.com/holdfast-ha/holdfast/framework/judge/verdict"
	"github.com/holdfast-ha/holdfast/framework/record"
)

// Doc describes a judge: see verdict.Doc.
type Doc = verdict.Doc

// Definition is a judge: its description and its function.
type Definition struct {
	Doc
	Judge func(*facts.Case) Finding
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
	// Timed marks a failure that rests on times measured between From and To: a starved harness may
	// have caused it. Without it they are when it happened; 0 if that is not known.
	Timed    bool
	From, To record.Nanos
	// Optional means that NotApplicable is about something that the cluster need not have, so that
	// the rest of the requirement stands without it.
	Optional bool
}

// EvidenceLimit keeps a result short enough to be read.
const EvidenceLimit = 10

func Passed(format string, args ...any) Finding {
	return Finding{Verdict: verdict.Pass, Sentence: fmt.Sprintf(format, args...)}
}

func Failed(format string, args ...any) Finding {
	return Finding{Verdict: verdict.Fail, Sentence: fmt.Sprintf(format, args...)}
}

func Inconclusive(format string, args ...any) Finding {
	return Finding{Verdict: verdict.Inconclusive, Sentence: fmt.Sprintf(format, args...)}
}

func notApplicable(format string, args ...any) Finding {
	return Finding{Verdict: verdict.NotApplicable, Sentence: fmt.Sprintf(format, args...)}
}

// optional is notApplicable for something that the cluster need not have; see Finding.
func optional(format string, args ...any) Finding {
	f := notApplicable(format, args...)
	f.Optional = true
	return f
}

// Took adds a measured duration.
func (f Finding) Took(d time.Duration) Finding {
	f.Measured, f.Value = text.Short(d), &d
	return f
}

func (f Finding) counted(format string, args ...any) Finding {
	f.Measured = fmt.Sprintf(format, args...)
	return f
}

func (f Finding) number(n int, thing string) Finding {
	return f.counted("%s", text.Plural(n, thing))
}

// Rests marks a failure as resting on times measured between from and to.
func (f Finding) Rests(from, to record.Nanos) Finding {
	f.Timed, f.From, f.To = true, from, to
	return f
}

// Over marks a failure as having happened between from and to, in an order that no load explains.
func (f Finding) Over(from, to record.Nanos) Finding {
	f.From, f.To = from, to
	return f
}

// problem returns the finding for functions that return one only if something is broken or
// cannot be judged.
func (f Finding) problem() *Finding { return &f }

// MissedBy returns by how much a measured time exceeds the bound; 0 if it does not, or if no time
// was measured.
func (f Finding) MissedBy(bound *verdict.Bound) time.Duration {
	if f.Value == nil || bound == nil {
		return 0
	}
	return max(0, *f.Value-bound.Limit)
}

// Lasted returns as much of a measured time as a failure rests on.
func (f Finding) Lasted() time.Duration { return min(*f.Value, text.Span(f.From, f.To)) }

func (f Finding) Shows(evidence ...string) Finding {
	f.Evidence = slices.Concat(f.Evidence, evidence)
	if len(f.Evidence) > EvidenceLimit {
		f.Evidence = append(f.Evidence[:EvidenceLimit], "…")
	}
	return f
}

// exhibits adds what a report draws of it.
func (f Finding) exhibits(e *verdict.Exhibit) Finding {
	f.Exhibit = e
	return f
}

// given wraps a judge that needs a value from the case, such as a parameter. If find cannot provide
// it, its finding is the result.
func given[T any](find func(*facts.Case) (T, *Finding), judge func(*facts.Case, T) Finding) func(*facts.Case) Finding {
	return func(m *facts.Case) Finding {
		of, problem := find(m)
		if problem != nil {
			return *problem
		}
		return judge(m, of)
	}
}

// bounded returns what puts a bound in place of the check's.
func bounded(b verdict.Bound) func(Finding) Finding {
	return func(f Finding) Finding {
		f.Bound = &b
		return f
	}
}
