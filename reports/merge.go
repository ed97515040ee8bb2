package reports

import (
	"cmp"
	"slices"
	"strings"

	"github.com/holdfast-ha/holdfast/framework/judge"
)

// Exit codes of the program for the verdicts of a run. 2 is reserved for usage errors.
const (
	ExitPass         = 0
	ExitFail         = 1
	ExitInconclusive = 3
)

const levelInfo = "INFO"

// Merge returns one verdict per requirement of the catalogue over all scenarios and judges that
// settle it: fail if any failed, else inconclusive if any was inconclusive, else pass; not
// applicable only if all were. The result is in order of ID. Checks of the harness are left out,
// see Checks. Titles may be nil.
func Merge(results []judge.Result, titles map[string]string) []Requirement {
	return merge(results, titles, false)
}

// Checks is Merge for the checks of the harness itself, those whose ID starts with
// "RUN/".
func Checks(results []judge.Result, titles map[string]string) []Requirement {
	return merge(results, titles, true)
}

// ExitCode returns the program's exit code for the results of a run: 1 if a MUST or SHOULD
// failed, else 3 if any is inconclusive or there is no result at all, else 0. A failed INFO shows
// a hazard and is not a failure.
func ExitCode(results []judge.Result) int {
	if len(results) == 0 {
		return ExitInconclusive
	}
	code := ExitPass
	for _, r := range results {
		if broken(r.Level, r.Verdict) {
			return ExitFail
		}
		if rank(r.Verdict) == rank(judge.Inconclusive) {
			code = ExitInconclusive
		}
	}
	return code
}

func broken(level string, v judge.Verdict) bool {
	return v == judge.Fail && level != levelInfo
}

func merge(results []judge.Result, titles map[string]string, checks bool) []Requirement {
	groups := map[string][]judge.Result{}
	for _, r := range results {
		if strings.HasPrefix(r.Requirement, checkPrefix) == checks {
			groups[r.Requirement] = append(groups[r.Requirement], r)
		}
	}
	merged := make([]Requirement, 0, len(groups))
	for id, group := range groups {
		merged = append(merged, mergeGroup(id, titles[id], group))
	}
	slices.SortFunc(merged, func(a, b Requirement) int { return cmp.Compare(a.ID, b.ID) })
	return merged
}

func mergeGroup(id, title string, group []judge.Result) Requirement {
	worst := decisive(group)
	req := Requirement{
		ID:               id,
		Title:            title,
		Verdict:          known(worst.Verdict),
		Bound:            worst.Bound,
		Measured:         worst.Measured,
		MeasuredDuration: worst.MeasuredDuration,
		Sentence:         worst.Sentence,
		DecidedBy:        worst.Scenario,
	}
	for _, r := range group {
		if level := knownLevel(r.Level); levelRank(level) > levelRank(req.Level) {
			req.Level = level
		}
		if !slices.Contains(req.Scenarios, r.Scenario) {
			req.Scenarios = append(req.Scenarios, r.Scenario)
		}
	}
	slices.Sort(req.Scenarios)
	req.Justified = req.Verdict == judge.NotApplicable && !slices.ContainsFunc(group, func(r judge.Result) bool { return !r.Justified })
	return req
}

// decisive returns the deciding result of a group: the worst verdict, then the largest used share
// of its bound, then the first by scenario, so that the order of the input does not matter.
func decisive(group []judge.Result) judge.Result {
	return slices.MaxFunc(group, func(a, b judge.Result) int {
		return cmp.Or(
			cmp.Compare(rank(a.Verdict), rank(b.Verdict)),
			cmp.Compare(share(a), share(b)),
			-compareResults(a, b),
		)
	})
}

// rank orders verdicts for merging.
func rank(v judge.Verdict) int { return displayOf(v).rank }

func known(v judge.Verdict) judge.Verdict {
	if rank(v) == rank(judge.Inconclusive) {
		return judge.Inconclusive
	}
	return v
}

// knownLevel treats an unknown level as the strictest one.
func knownLevel(level string) string {
	if levelRank(level) < 0 {
		return "MUST"
	}
	return level
}

func levelRank(level string) int {
	return slices.Index([]string{levelInfo, "SHOULD", "MUST"}, level)
}

// share returns the used part of the bound, -1 if unknown.
func share(r judge.Result) float64 {
	if r.Bound == nil || r.Bound.Limit <= 0 || r.MeasuredDuration == nil {
		return -1
	}
	return float64(*r.MeasuredDuration) / float64(r.Bound.Limit)
}

func compareResults(a, b judge.Result) int {
	return cmp.Or(
		cmp.Compare(a.Scenario, b.Scenario),
		cmp.Compare(a.Requirement, b.Requirement),
		cmp.Compare(a.Judge, b.Judge),
		cmp.Compare(a.Sentence, b.Sentence),
	)
}
