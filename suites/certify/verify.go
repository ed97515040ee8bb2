package certify

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-ha/holdfast/clusters"
	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/engine"
	"github.com/holdfast-ha/holdfast/framework/judge"
	"github.com/holdfast-ha/holdfast/framework/record"
	"github.com/holdfast-ha/holdfast/reports"
	"github.com/holdfast-ha/holdfast/reports/bundle"
	"github.com/holdfast-ha/holdfast/reports/keyless"
	"github.com/holdfast-ha/holdfast/scenarios"
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
	// Experiments and Files count what was verified.
	Experiments int `json:"experiments"`
	Files       int `json:"files"`
}

// Holds reports whether everything in the bundle holds.
func (v *Verification) Holds() bool { return len(v.Problems) == 0 }

// VerifyIdentity verifies that an identity, the one that the reader expects, signed the bundle in
// a file as Sign does. See keyless.Verify.
func (v *Verification) VerifyIdentity(file, trustedRoot, identity, issuer string) {
	if err := keyless.Verify(file, trustedRoot, identity, issuer); err != nil {
		v.Problems = append(v.Problems, err.Error())
		return
	}
	v.Identity = identity
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
		v: &Verification{Statement: s, Key: b.Key.ID, Files: b.Files, Problems: []string{}}}
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

// stated checks the statement about the run against the plan.
func (v *verifier) stated() {
	s, p := v.v.Statement, v.plan
	for _, f := range []struct{ what, stated, planned string }{
		{"the run", s.Run, p.Run}, {"the provider", s.Provider, p.Provider}, {"the version of holdfast", s.Tool.Version, p.Harness},
		{"the version of Kubernetes", s.Versions.Kubernetes, p.Cluster.Spec.KubernetesVersion},
		{"the begin", s.Started.UTC().Format(time.RFC3339Nano), p.Started.UTC().Format(time.RFC3339Nano)},
		{"the end", s.Ended.UTC().Format(time.RFC3339Nano), p.Ended.UTC().Format(time.RFC3339Nano)},
	} {
		if f.stated != f.planned {
			v.problem("%s is stated as %s, and the plan has %s", f.what, f.stated, f.planned)
		}
	}
	if end := run.SeedMark(p.Seed); !strings.HasSuffix(p.Run, end) {
		v.problem("the plan has seed %d, and its run %s had another one: its name would end with %s", p.Seed, p.Run, end)
	}
}

// files checks that the bundle has no file that the plan does not explain.
func (v *verifier) files() {
	known := map[string]bool{run.PlanFile: true, reports.ResultsFile: true}
	for _, s := range v.plan.Scenarios {
		known[filepath.ToSlash(filepath.Join(record.Dir("", s.Metadata.Name), record.FileName))] = true
	}
	for _, name := range v.bundle.Names {
		if !known[name] && !strings.HasPrefix(name, "logs/") {
			v.problem("%s is in the bundle, and nothing in the plan explains it", name)
		}
	}
}

// planned checks that the plan has exactly the experiments that its rows require, as the
// catalogue has them.
func (v *verifier) planned() {
	profile := ProfileOf(v.plan)
	if len(v.plan.Rows) == 0 {
		v.problem("the run certifies nothing: its plan names no rows")
	}
	if profile == Observing && !slices.Equal(v.plan.Rows, Observed()) {
		v.problem("an observation is about all %d rows that take no fault, and the plan has other rows", len(Observed()))
	}
	for _, id := range v.plan.Rows {
		if len(settling(id, profile)) == 0 {
			v.problem("%s is a row that no scenario of the catalogue settles", id)
		}
	}
	nodes := len(v.plan.Cluster.Spec.Nodes)
	if nodes == 0 {
		v.problem("the plan's cluster has no nodes")
		return
	}
	planned := map[string]*scenarios.Scenario{}
	for _, s := range v.plan.Scenarios {
		if planned[s.Metadata.Name] != nil {
			v.problem("the plan has %s twice", s.Metadata.Name)
		}
		planned[s.Metadata.Name] = s
	}
	for _, base := range Scenarios(v.plan.Rows, profile) {
		if left := planned[base.Metadata.Name]; left != nil && left.NotFor(nodes) != "" && left.Victim == 0 {
			switch {
			case !same(left, base):
				v.problem("%s in the plan is not as the catalogue has it", base.Metadata.Name)
			case left.ByDesign && !run.AsDescribed(v.plan.Cluster, []*scenarios.Scenario{base})[0].ByDesign:
				v.problem("%s is left out as if the cluster were made in another way, which the plan's cluster is not", base.Metadata.Name)
			}
			delete(planned, base.Metadata.Name)
			continue
		}
		for victim := 1; victim <= max(Turns, nodes); victim++ {
			turn := base.InTurn(victim, nodes)
			switch s := planned[turn.Metadata.Name]; {
			case s == nil:
				v.problem("the plan lacks %s, which the rows take", turn.Metadata.Name)
			case !same(s, turn) || s.Missing != "":
				v.problem("%s in the plan is not as the catalogue has it", turn.Metadata.Name)
			}
			delete(planned, turn.Metadata.Name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(planned)) {
		v.problem("the plan has %s, which the rows do not take", name)
	}
}

// same reports whether a scenario of a plan equals the catalogue's. It may be left out, and may
// run unchanged on a cluster that the user described.
func same(planned, known *scenarios.Scenario) bool {
	if on := planned.Spec.Cluster; !reflect.DeepEqual(on, known.Spec.Cluster) && !reflect.DeepEqual(on, scenarios.Topology{Own: known.Spec.Cluster.Own}) &&
		planned.Missing == "" {
		return false
	}
	plain := func(s scenarios.Scenario) []byte {
		s.Missing, s.ByDesign, s.Spec.Cluster = "", false, scenarios.Topology{}
		var text bytes.Buffer
		if err := reports.WriteJSON(&text, s); err != nil {
			return nil
		}
		return text.Bytes()
	}
	text := plain(*planned)
	return text != nil && bytes.Equal(text, plain(*known))
}

// span is the wall time of an experiment.
type span struct {
	scenario string
	from, to time.Time
}

// records judges each experiment's record, one at a time, and checks that it belongs to this run
// and exists only once.
func (v *verifier) records() {
	spans := map[string][]span{}        // by part
	bodies := map[string]string{}       // scenario by the digest of its observations
	members := map[string]record.Meta{} // what each part's first record says of its cluster
	var all []experiment
	for _, s := range v.plan.Scenarios {
		name := s.Metadata.Name
		if v.progress != nil {
			v.progress(name)
		}
		results, seen := v.plan.JudgeScenario(v.dir, s)
		v.derived.Add(s, results, seen)
		all = append(all, experiment{s, results, hit(seen)})
		if seen == nil {
			if s.NotFor(len(v.plan.Part(s).Cluster.Spec.Nodes)) == "" {
				v.problem("%s has no record of its own: %s", name, sentenceOf(results))
			}
			continue
		}
		v.v.Experiments++
		if seen.Problem != "" || !seen.Complete {
			v.problem("the record of %s is not whole: %s", name, seen.Problem)
		}
		if !sameChecks(seen.Meta.Checks, s.Experiment().Checks) {
			v.problem("the record of %s asks for other checks than the catalogue", name)
		}
		if seen.Meta.Harness != v.plan.Harness || seen.Meta.Provider != v.plan.Provider {
			v.problem("the record of %s was made by holdfast %s on provider %s, and the run by holdfast %s on provider %s",
				name, seen.Meta.Harness, seen.Meta.Provider, v.plan.Harness, v.plan.Provider)
		}
		if seed := engine.SeedOf(v.plan.Seed, name); seen.Meta.Seed != seed {
			v.problem("the record of %s has seed %d, and the run's seed makes it %d", name, seen.Meta.Seed, seed)
		}
		v.cluster(s, seen.Meta)
		if from, to := seen.Meta.Started, seen.Meta.Started.Add(time.Duration(seen.EndAt)); from.Before(v.plan.Started) || to.After(v.plan.Ended) {
			v.problem("%s was run from %s to %s, and the run lasted from %s to %s", name, from.Format(time.RFC3339), to.Format(time.RFC3339),
				v.plan.Started.UTC().Format(time.RFC3339), v.plan.Ended.UTC().Format(time.RFC3339))
		}
		body, err := observed(record.Dir(v.dir, name))
		if err != nil {
			v.problem("the record of %s: %v", name, err)
		} else if other := bodies[body]; other != "" {
			v.problem("%s and %s have the same observations: one is a copy of the other", other, name)
		}
		bodies[body] = name
		part := v.plan.Part(s).Name
		if first, ok := members[part]; !ok {
			members[part] = seen.Meta
		} else if !sameCluster(first, seen.Meta) {
			v.problem("the records of %s and %s, both of %s, are of different clusters", first.Scenario, name, part)
		} else if !sameSettings(first, seen.Meta) {
			v.problem("the records of %s and %s, both of %s, have different settings, which their bounds follow", first.Scenario, name, part)
		}
		spans[part] = append(spans[part], span{name, seen.Meta.Started, seen.Meta.Started.Add(time.Duration(seen.EndAt))})
	}
	for _, part := range slices.Sorted(maps.Keys(spans)) {
		of := spans[part]
		slices.SortFunc(of, func(a, b span) int { return a.from.Compare(b.from) })
		for i := 1; i < len(of); i++ {
			if of[i].from.Before(of[i-1].to) {
				v.problem("%s and %s were both run on %s at the same time", of[i-1].scenario, of[i].scenario, part)
			}
		}
	}
	v.v.Outcome = outcome(v.plan, all)
}

// cluster checks that a record names the nodes and the version in the plan.
func (v *verifier) cluster(s *scenarios.Scenario, seen record.Meta) {
	planned := v.plan.Part(s).Cluster
	var want, got []string
	for _, n := range planned.Nodes() {
		want = append(want, n.Name)
	}
	for _, n := range seen.Nodes {
		got = append(got, n.Name)
		if version := seen.Versions[n.Name][string(framework.APIServer)]; version != planned.Spec.KubernetesVersion {
			v.problem("the record of %s has API server %s on %s, and the plan's cluster is of %s", s.Metadata.Name, dash(version), n.Name, planned.Spec.KubernetesVersion)
		}
	}
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(want, got) {
		v.problem("the record of %s is of a cluster with nodes %s, and the plan's has %s", s.Metadata.Name, strings.Join(got, ", "), strings.Join(want, ", "))
	}
	if planned.Spec.Inventory != nil {
		return // its settings are read from what runs
	}
	settings, err := clusters.Settings(planned)
	if err != nil {
		v.problem("the plan's cluster of %s: %v", s.Metadata.Name, err)
		return
	}
	symbols := settings.Symbols()
	for _, name := range slices.Sorted(maps.Keys(symbols)) {
		// The local provider's balancer is the one in the plan; others bring their own.
		if got := seen.Settings[name]; got != symbols[name] && (name != "H" || v.plan.Provider == "local") {
			v.problem("the record of %s has %s = %s, and the plan's cluster has %s", s.Metadata.Name, name, got, symbols[name])
		}
	}
	for _, n := range planned.Nodes() {
		got := seen.Versions[n.Name][string(framework.Etcd)]
		if want := run.EtcdVersion(planned); v.plan.Provider == "local" && got != "" && got != want {
			v.problem("the record of %s has etcd %s on %s, and the plan's cluster has %s", s.Metadata.Name, got, n.Name, want)
		}
	}
}

// sameSettings reports whether two records have the same bounds' inputs.
func sameSettings(a, b record.Meta) bool {
	return reflect.DeepEqual(a.Settings, b.Settings) && reflect.DeepEqual(a.Elections, b.Elections) && slices.Equal(a.Assumed, b.Assumed) &&
		a.RemoteEtcd == b.RemoteEtcd && a.GoawayChance == b.GoawayChance
}

func sentenceOf(results []judge.Result) string {
	if len(results) == 0 {
		return "nothing is known of it"
	}
	return results[0].Sentence
}

func sameChecks(a, b []record.Check) bool {
	one, err := json.Marshal(a)
	other, err2 := json.Marshal(b)
	return err == nil && err2 == nil && bytes.Equal(one, other)
}

// sameCluster reports whether the control-plane nodes that two records have in common have the
// same addresses: nodes may join and leave.
func sameCluster(a, b record.Meta) bool {
	for _, n := range a.Nodes {
		for _, m := range b.Nodes {
			if n.Name == m.Name && n.Address != m.Address {
				return false
			}
		}
	}
	return true
}

// observed returns a digest of a record, without its own metadata and without the write times of
// its entries.
func observed(dir string) (string, error) {
	r, err := record.Open(dir)
	if err != nil {
		return "", err
	}
	defer r.Close()
	sum := sha256.New()
	for {
		e, err := r.Next()
		if errors.Is(err, io.EOF) || errors.As(err, new(*record.Damage)) {
			return fmt.Sprintf("%x", sum.Sum(nil)), nil
		}
		if err != nil {
			return "", err
		}
		fmt.Fprintf(sum, "%s %s\n", e.Kind, e.Data)
	}
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
			v.problem("%s in %s is stated as %s, and its record gives %s: %s", got.Requirement, got.Scenario, said.Verdict, got.Verdict, got.Sentence)
		case said != got:
			v.problem("%s in %s is stated as %q (%s), and its record gives %q (%s)", got.Requirement, got.Scenario, said.Sentence, said.Measured, got.Sentence, got.Measured)
		}
	}
	for _, n := range slices.Sorted(maps.Keys(stated)) {
		v.problem("the statement has a verdict on %s in %s that no record gives", stated[n].Requirement, stated[n].Scenario)
	}
	s, o := v.v.Statement, v.v.Outcome
	for i, r := range o.Rows {
		if i >= len(s.Outcome.Rows) || !reflect.DeepEqual(s.Outcome.Rows[i], r) {
			v.problem("the stated outcome differs from what the records give: they give %s: %s", r.ID, dash(r.Sentence))
			break
		}
	}
	if got, want := *s.Outcome, *o; len(got.Rows) != len(want.Rows) || got.Class != want.Class || got.Certified != want.Certified || got.Judgement != want.Judgement {
		v.problem("the stated outcome is %q, and the records give %q", got.Judgement, want.Judgement)
	}
	v.derived.Certificate = o.certificate()
	report := v.derived.Report()
	if got, want := text(s.Versions), text(report.Versions); got != want {
		v.problem("the versions are stated as %s, and the records give %s", got, want)
	}
	if got, want := text(s.Nodes), text(report.Nodes); got != want {
		v.problem("the nodes are stated as %s, and the records give %s", got, want)
	}
	derived := *s
	derived.Outcome = o
	for i, p := range predicates(&derived) {
		stated := v.bundle.Predicates
		if i >= len(stated) || len(stated) != 2 || stated[i].Name != p.Name || stated[i].Type != p.Type {
			v.problem("a bundle has the attestations test-result and verdicts, and this one has others")
			break
		}
		if p.Type == TestResultType && text(stated[i].Body) != text(p.Body) {
			v.problem("the attestation %s states %s, and the records give %s", p.Name, text(stated[i].Body), text(p.Body))
		}
	}
	got, err := os.ReadFile(filepath.Join(v.dir, reports.ResultsFile))
	want, err2 := v.derived.JSON()
	if err = errors.Join(err, err2); err != nil {
		v.problem("the bundle's results: %v", err)
	} else if !bytes.Equal(got, want) {
		v.problem("the bundle's %s has other verdicts or facts than its records give", reports.ResultsFile)
	}
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

// Print writes the table and a one-line judgement.
func (v *Verification) Print(w io.Writer) error {
	s := v.Statement
	fmt.Fprintf(w, "run %s on provider %s from %s to %s, Kubernetes %s, etcd %s, %d control-plane nodes, made with holdfast %s\n", s.Run, s.Provider,
		s.Started.Format(time.RFC3339), s.Ended.Format(time.RFC3339), s.Versions.Kubernetes, s.Versions.Etcd, len(s.Nodes), s.Tool.Version)
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
		fmt.Fprintf(w, "  %s\n", strings.TrimSpace(p))
	}
	return nil
}
