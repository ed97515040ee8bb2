package judge

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-ha/holdfast/framework/judge/internal/facts"
	"github.com/holdfast-ha/holdfast/framework/judge/internal/judges"
	"github.com/holdfast-ha/holdfast/framework/record"
)

// Judge is a user's own judge, for Evaluate. The rules for built-in judges that a check names
// apply to it: see Evaluate. It is not a judge of every run: Doc.Invariant is ignored.
type Judge struct {
	Doc
	// Evaluate checks a case against the guarantee. It is a pure function: the same case gives
	// the same finding, and it does not change the case.
	Evaluate func(*Case) Finding
}

// Case is what a Judge decides on. All judges of a record share it: judges must not change it.
type Case struct {
	// Run is the whole record.
	Run *record.Run
	// Check is the check that names the judge.
	Check record.Check
	// Bound is the check's limit, nil if it names none; never nil if Doc.NeedsBound.
	Bound *Bound
	// Fault is the injection that the check names, nil if it names none; never nil if
	// Doc.NeedsFault. Its effect and its healing are proven.
	Fault *Injection
}

// Param returns a parameter of the check, or byDefault if the check does not give it.
func (c *Case) Param(name, byDefault string) string {
	return (&facts.Case{Check: c.Check}).Param(name, byDefault)
}

// Injection is a fault from its injection to its healing.
type Injection struct{ Injected, Healed record.Fault }

// From returns when the effect of the fault was seen.
func (i *Injection) From() record.Nanos { return i.life().Effect() }

// To returns when the fault was seen to be gone.
func (i *Injection) To() record.Nanos { return i.life().HealEffect() }

// Nodes returns the names of all nodes that the fault hits.
func (i *Injection) Nodes() []string { return i.life().Nodes() }

// String returns a readable name: "kill of etcd on node-2".
func (i *Injection) String() string { return i.life().What() }

func (i *Injection) life() *facts.Injection {
	return &facts.Injection{ID: i.Injected.ID, Injected: &i.Injected, Healed: &i.Healed}
}

// Finding is what a Judge found.
type Finding struct {
	// Verdict is the verdict on the check. If it is NotApplicable, the requirement does not pass by
	// its other checks.
	Verdict Verdict
	// Sentence describes the finding: guarantee, who or where, bound and value. It is required.
	Sentence string
	// Measured is the value that was compared with the bound, as text: "3 of 3". Took is the same
	// if it is a time, and then Measured may be empty.
	Measured string
	Took     time.Duration
	// From and To are the times between which a failure was measured. If the harness was starved
	// then, the verdict is inconclusive. If they are zero and Took is not, the whole record
	// counts; a failure without any of them does not depend on time.
	From, To record.Nanos
	// Evidence are the lines of the record or facts that show it, at most ten.
	Evidence []string
	// Exhibit is what a report draws for it; nil for nothing.
	Exhibit *Exhibit
}

// definition adapts a user's own judge to the built-in ones.
func (j Judge) definition() judges.Definition {
	return judges.Definition{Doc: j.Doc, Judge: func(m *facts.Case) judges.Finding {
		if j.Evaluate == nil {
			return judges.Inconclusive("judge %s has no Evaluate function", j.Name)
		}
		c := &Case{Run: m.Run, Check: m.Check, Bound: m.Bound}
		if m.Fault != nil {
			c.Fault = &Injection{Injected: *m.Fault.Injected, Healed: *m.Fault.Healed}
		}
		return j.Evaluate(c).finding(m.Run, j.Name)
	}}
}

func (f Finding) finding(run *record.Run, judge string) judges.Finding {
	switch {
	case !slices.Contains([]Verdict{Pass, Fail, Inconclusive, NotApplicable}, f.Verdict):
		return judges.Inconclusive("judge %s returned the verdict %q, which does not exist", judge, f.Verdict)
	case f.Sentence == "":
		return judges.Inconclusive("judge %s returned %s without a sentence", judge, f.Verdict)
	}
	found := judges.Finding{Verdict: f.Verdict, Sentence: f.Sentence, Exhibit: f.Exhibit}.Shows(f.Evidence...)
	if f.Took != 0 {
		found = found.Took(f.Took).Rests(0, run.EndAt)
	}
	if f.Measured != "" {
		found.Measured = f.Measured
	}
	if f.To != 0 {
		found = found.Rests(f.From, f.To)
	}
	return found
}

// Find describes the judge with a name among those that a check may name: the built-in ones and
// the caller's own. It returns an error if none or two have that name.
func Find(name string, own ...Judge) (Doc, error) {
	d, err := find(name, own)
	return d.Doc, err
}

func find(name string, own []Judge) (judges.Definition, error) {
	all := judges.Nameable()
	for _, j := range own {
		all = append(all, j.definition())
	}
	found := slices.DeleteFunc(all, func(d judges.Definition) bool { return d.Name != name })
	switch len(found) {
	case 0:
		return judges.Definition{}, fmt.Errorf("%q is not a judge: want one of %s", name, strings.Join(Names(own...), ", "))
	case 1:
		return found[0], nil
	}
	return judges.Definition{}, fmt.Errorf("two judges have the name %q", name)
}
