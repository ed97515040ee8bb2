package certify

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/holdfast-ha/holdfast/reports"
	"github.com/holdfast-ha/holdfast/reports/bundle"
	"github.com/holdfast-ha/holdfast/reports/keyless"
	"github.com/holdfast-ha/holdfast/suites/run"
)

// Verification is what came of verifying a bundle.
type Verification struct {
	Statement *Statement `json:"statement"`
	// Key identifies the key that signed; Trusted reports whether it is the one that the
	// reader expects.
	Key     string `json:"key"`
	Trusted bool   `json:"trusted"`
	// Identity signed the bundle without a key of its own, as services of the reader's trusted
	// root certify; empty if nothing was asked for.
	Identity string `json:"identity,omitempty"`
	// Outcome is derived from the bundle's records alone.
	Outcome *Outcome `json:"outcome"`
	// Problems say what does not hold; empty for a bundle that can be relied on.
	Problems []string `json:"problems"`
	// Seed is the plan's. Existing reports that the cluster was an existing one, by the plan.
	Seed     uint64 `json:"seed"`
	Existing bool   `json:"existing"`
	// Repeated are the scenarios that the run repeated after it had judged them, by its plan.
	Repeated []string `json:"repeated,omitempty"`
	// Experiments and Files count what was verified.
	Experiments int `json:"experiments"`
	Files       int `json:"files"`
}

// Holds reports whether everything in the bundle holds.
func (v *Verification) Holds() bool { return len(v.Problems) == 0 }

// VerifyIdentity verifies that an identity, the one that the reader expects, signed the bundle in
// a file as Sign does, with its test result. The error is keyless.ErrExpected; see keyless.Verify.
func (v *Verification) VerifyIdentity(file, trustedRoot, identity, issuer string) error {
	stated, err := keyless.Verify(file, trustedRoot, identity, issuer)
	switch {
	case errors.Is(err, keyless.ErrExpected):
		return err
	case err != nil:
		v.Problems = append(v.Problems, err.Error())
	case stated.Type != TestResultType || text(stated.Body) != text(summaryOf(v.Outcome, v.Statement.Tool)):
		v.Problems = append(v.Problems, filepath.Base(file)+keyless.Suffix+" states a result other than the one that the records give")
	default:
		v.Identity = identity
	}
	return nil
}

// ErrOtherRules is in the error of a Verify for a bundle made under rules other than those of this
// holdfast.
var ErrOtherRules = errors.New("made under other rules")

// Verify verifies the bundle in a file against the rules of this holdfast. An expected key may be
// nil. Progress receives the name of each experiment. An error means that the bundle cannot be
// evaluated: it is damaged, its signature does not hold, or it was made under other rules.
func Verify(file string, expected *bundle.Key, progress func(string)) (*Verification, error) {
	dir, err := os.MkdirTemp("", "holdfast-verify-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	b, err := bundle.Open(file, dir)
	if err != nil {
		return nil, err
	}
	s, err := statementOf(b)
	if err != nil {
		return nil, err
	}
	if theirs, ours := s.Tool.rules(), theseRules(); theirs != ours {
		return nil, fmt.Errorf("%w: the bundle was made by holdfast %s with catalogue %.12s, judges %.12s and records of version %d, and this holdfast has catalogue %.12s, judges %.12s and records of version %d; verify it with the holdfast that made it",
			ErrOtherRules, s.Tool.Version, theirs.Catalogue, theirs.Judges, theirs.Record, ours.Catalogue, ours.Judges, ours.Record)
	}
	p, err := run.Load(dir)
	if err != nil {
		return nil, errors.New("the bundle's plan cannot be read: " + strings.ReplaceAll(err.Error(), dir, filepath.Base(file)))
	}
	v := &verifier{dir: dir, bundle: b, plan: p, progress: progress, derived: p.Verdicts(),
		v: &Verification{Statement: s, Key: b.Key.ID, Files: b.Files, Problems: []string{}, Seed: p.Seed, Existing: p.Attach}}
	if expected != nil {
		v.v.Trusted = expected.ID == b.Key.ID
		if !v.v.Trusted {
			v.problem("it is signed with key %s, and not with the expected one, %s", b.Key.ID, expected.ID)
		}
	}
	v.stated()
	v.planned()
	v.files()
	v.records()
	v.compare()
	return v.v, nil
}

type verifier struct {
	dir      string
	bundle   *bundle.Bundle
	plan     *run.Plan
	progress func(string)
	v        *Verification
	derived  *run.Verdicts
}

func (v *verifier) problem(format string, args ...any) {
	v.v.Problems = append(v.v.Problems, fmt.Sprintf(format, args...))
}

// compare compares the maker's statement with the derived verdicts.
func (v *verifier) compare() {
	stated := map[string]Verdict{}
	key := func(o Verdict) string { return o.Scenario + " " + o.Requirement + " " + o.Judge }
	seen := map[string]int{}
	number := func(o Verdict) string { // one scenario may have several verdicts on the same requirement
		seen[key(o)]++
		return fmt.Sprintf("%s %d", key(o), seen[key(o)])
	}
	for _, o := range v.v.Statement.Verdicts {
		stated[number(o)] = o
	}
	clear(seen)
	for _, got := range verdictsOf(v.derived.Results) {
		n := number(got)
		said, ok := stated[n]
		delete(stated, n)
		switch {
		case !ok:
			v.problem("the statement has no verdict on %s in %s, which is %s", got.Requirement, got.Scenario, got.Verdict)
		case said.Verdict != got.Verdict:
			v.problem("%s in %s is stated as %s, but its record gives %s: %s", got.Requirement, got.Scenario, said.Verdict, got.Verdict, got.Sentence)
		case said != got:
			v.problem("%s in %s is stated as %q (%s), but its record gives %q (%s)", got.Requirement, got.Scenario, said.Sentence, said.Measured, got.Sentence, got.Measured)
		}
	}
	for _, n := range slices.Sorted(maps.Keys(stated)) {
		v.problem("the statement has a verdict on %s in %s that no record gives", stated[n].Requirement, stated[n].Scenario)
	}
	s, o := v.v.Statement, v.v.Outcome
	for i, r := range o.Rows {
		if i >= len(s.Outcome.Rows) || text(s.Outcome.Rows[i]) != text(r) {
			v.problem("the stated outcome differs from what the records give: they give %s: %s", r.ID, dash(r.Sentence))
			break
		}
	}
	if got, want := *s.Outcome, *o; len(got.Rows) != len(want.Rows) || got.Class != want.Class || got.Certified != want.Certified || got.Judgement != want.Judgement {
		v.problem("the stated outcome is %q, but the records give %q", got.Judgement, want.Judgement)
	}
	v.derived.Certificate = o.certificate()
	report := v.derived.Report()
	if got, want := text(s.Versions), text(report.Versions); got != want {
		v.problem("the versions are stated as %s, but the records give %s", got, want)
	}
	if got, want := text(s.Nodes), text(report.Nodes); got != want {
		v.problem("the nodes are stated as %s, but the records give %s", got, want)
	}
	derived := *s
	derived.Outcome, derived.Verdicts = o, verdictsOf(v.derived.Results)
	for i, p := range predicates(&derived) {
		stated := v.bundle.Predicates
		if i >= len(stated) || len(stated) != 2 || stated[i].Name != p.Name || stated[i].Type != p.Type {
			v.problem("a bundle has the attestations test-result and verdicts, but this one has others")
			break
		}
		switch got, want := text(stated[i].Body), text(p.Body); {
		case got == want:
		case p.Type == TestResultType:
			v.problem("the attestation %s states %s, but the records give %s", p.Name, got, want)
		default: // too long to show
			v.problem("the attestation %s has other fields or values than the records give", p.Name)
		}
	}
	want, err := v.derived.JSON(v.plan)
	var got []byte
	if err == nil {
		got, err = decompress(filepath.Join(v.dir, resultsFile), len(want)+1)
	}
	if err != nil {
		v.problem("the bundle's results: %v", err)
	} else if !bytes.Equal(got, want) {
		v.problem("the bundle's %s has other verdicts or facts than its records give", resultsFile)
	}
}

// decompress returns the first bytes of a compressed file.
func decompress(file string, limit int) ([]byte, error) {
	in, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	dec, err := zstd.NewReader(in)
	if err != nil {
		return nil, err
	}
	defer dec.Close()
	return io.ReadAll(io.LimitReader(dec, int64(limit)))
}

// text is a value as JSON, with the keys of objects in order.
func text(value any) string {
	b, err := json.Marshal(value)
	var plain any
	if err == nil {
		err = json.Unmarshal(b, &plain)
	}
	if err == nil {
		b, err = json.Marshal(plain)
	}
	if err != nil {
		return err.Error()
	}
	return string(b)
}

// shown is the maximum number of problems that Print lists.
const shown = 20

// cluster says what was tested.
func (v *Verification) cluster() string {
	if v.Existing {
		return "an existing cluster (provider " + reports.OneLine(v.Statement.Provider) + ")"
	}
	return "clusters that holdfast created (provider " + reports.OneLine(v.Statement.Provider) + ")"
}

// Print writes the table and a one-line judgement.
func (v *Verification) Print(w io.Writer) error {
	s := v.Statement
	fmt.Fprintf(w, "run %s with seed %d on %s, from %s to %s, Kubernetes %s, etcd %s, %s, made with holdfast %s\n", reports.OneLine(s.Run), v.Seed, v.cluster(),
		s.Started.Format(time.RFC3339), s.Ended.Format(time.RFC3339), reports.OneLine(s.Versions.Kubernetes), reports.OneLine(s.Versions.Etcd), reports.Plural(len(s.Nodes), "control-plane node"), reports.OneLine(s.Tool.Version))
	trust := "which is the expected one"
	switch {
	case v.Trusted:
	case v.Identity != "":
		trust = "and by " + v.Identity + ", whom the expected issuer vouches for"
	default:
		trust = "and nothing says whose that is: name the key that you expect with --key"
	}
	fmt.Fprintf(w, "signed with key %s, %s\n\n", v.Key, trust)
	if err := v.Outcome.Print(w); err != nil {
		return err
	}
	if len(v.Repeated) > 0 {
		fmt.Fprintf(w, "repeated after a first verdict: %s\n", strings.Join(v.Repeated, ", "))
	}
	if v.Holds() {
		_, err := fmt.Fprintf(w, "verified: %d files are as they were signed, and the records of %d experiments give the same %d verdicts\n", v.Files, v.Experiments, len(s.Verdicts))
		return err
	}
	fmt.Fprintf(w, "NOT verified:\n")
	for i, p := range v.Problems {
		if i == shown {
			fmt.Fprintf(w, "  and %d more\n", len(v.Problems)-shown)
			break
		}
		fmt.Fprintf(w, "  %s\n", reports.OneLine(p))
	}
	return nil
}
