package certify

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/holdfast-ha/holdfast/framework/judge"
	"github.com/holdfast-ha/holdfast/framework/record"
	"github.com/holdfast-ha/holdfast/framework/redact"
	"github.com/holdfast-ha/holdfast/reports"
	"github.com/holdfast-ha/holdfast/reports/bundle"
	"github.com/holdfast-ha/holdfast/reports/keyless"
	"github.com/holdfast-ha/holdfast/scenarios"
	"github.com/holdfast-ha/holdfast/suites/run"
)

// Predicate types of a bundle's statements.
const (
	VerdictsType   = "https://holdfast.dev/attestation/verdicts/v1"
	TestResultType = "https://in-toto.io/attestation/test-result/v0.1"
	SVRType        = "https://in-toto.io/attestation/svr/v0.1"
)

// BundleFile is the name of the bundle in the results directory of a certification.
const BundleFile = "bundle.tar"

// resultsFile is the name of the results in a bundle.
const resultsFile = reports.ResultsFile + ".zst"

// Statement is what the maker of a bundle states: the predicate of type VerdictsType. All of it
// is derived again when the bundle is verified, except for the digest of the program.
type Statement struct {
	// Tool made the bundle, by rules of this version.
	Tool Tool `json:"tool"`
	// Run identifies the run, Provider says where the cluster was.
	Run      string    `json:"run"`
	Provider string    `json:"provider"`
	Started  time.Time `json:"started"`
	Ended    time.Time `json:"ended"`
	// Versions are those of the cluster under test.
	Versions reports.Versions `json:"versions"`
	Nodes    []reports.Node   `json:"nodes"`
	Outcome  *Outcome         `json:"outcome"`
	// Verdicts are those on each scenario and requirement, of which the outcome is made.
	Verdicts []Verdict `json:"verdicts"`
}

// Tool is a holdfast and its rules.
type Tool struct {
	Version string `json:"version"`
	// Digest is the SHA-256 digest of the program itself.
	Digest string `json:"digest"`
	// Catalogue is the digest of its catalogue, Judges that of its judges, and Record the version
	// of its record's format: its rules.
	Catalogue string `json:"catalogue"`
	Judges    string `json:"judges"`
	Record    int    `json:"record"`
}

// Verdict is the verdict of a judge on a requirement in one experiment.
type Verdict struct {
	Scenario    string        `json:"scenario"`
	Requirement string        `json:"requirement"`
	Judge       string        `json:"judge"`
	Verdict     judge.Verdict `json:"verdict"`
	Measured    string        `json:"measured,omitempty"`
	Sentence    string        `json:"sentence"`
}

func verdictsOf(results []judge.Result) []Verdict {
	all := make([]Verdict, len(results))
	for i, r := range results {
		all[i] = Verdict{r.Scenario, r.Requirement, r.Judge, r.Verdict, r.Measured, r.Sentence}
	}
	return all
}

// ThisTool returns the running holdfast, of a version.
func ThisTool(version string) (t Tool, err error) {
	t = theseRules()
	t.Version = version
	t.Digest, err = bundle.Digest("/proc/self/exe") // its path may be that of a newer build by now
	return t, err
}

// theseRules returns a tool with the rules of this holdfast, and nothing else.
func theseRules() Tool {
	return Tool{Catalogue: scenarios.Digest(), Judges: judge.Digest(), Record: record.Version}
}

// rules returns the tool with its rules alone.
func (t Tool) rules() Tool { return Tool{Catalogue: t.Catalogue, Judges: t.Judges, Record: t.Record} }

// testResult is in-toto's own summary of tests.
type testResult struct {
	Result        string           `json:"result"`
	Configuration []map[string]any `json:"configuration"`
	PassedTests   []string         `json:"passedTests"`
	WarnedTests   []string         `json:"warnedTests"`
	FailedTests   []string         `json:"failedTests"`
}

func summaryOf(o *Outcome, t Tool) testResult {
	s := testResult{Result: "PASSED", PassedTests: []string{}, WarnedTests: []string{}, FailedTests: []string{},
		Configuration: []map[string]any{{"name": "holdfast catalogue", "digest": map[string]string{"sha256": t.Catalogue}}}}
	for _, r := range o.Rows {
		switch {
		case r.Verdict == judge.Pass:
			s.PassedTests = append(s.PassedTests, r.ID)
		case r.Verdict == judge.Fail:
			s.FailedTests = append(s.FailedTests, r.ID)
		case r.Justified: // it was not run
		default: // the type has no place for inconclusive tests
			s.WarnedTests = append(s.WarnedTests, r.ID)
		}
	}
	switch {
	case len(s.FailedTests) > 0:
		s.Result = "FAILED"
	case len(s.WarnedTests) > 0, len(s.PassedTests) == 0:
		s.Result = "WARNED"
	}
	return s
}

// Bundle writes a bundle of the results of a certification in dir to BundleFile there, and
// returns its path.
func Bundle(dir string, v *run.Verdicts, o *Outcome, t Tool, key *bundle.Key) (string, error) {
	from, err := os.MkdirTemp(dir, ".bundle-")
	if err != nil {
		return "", fmt.Errorf("failed to make a bundle: %w", err)
	}
	defer os.RemoveAll(from)
	if err := gather(dir, from, v); err != nil {
		return "", fmt.Errorf("failed to make a bundle: %w", err)
	}
	report := v.Report()
	statement := Statement{Tool: t, Run: report.ID, Provider: report.Provider, Started: report.Started, Ended: report.Ended, Versions: report.Versions,
		Nodes: report.Nodes, Outcome: o, Verdicts: verdictsOf(v.Results)}
	file := filepath.Join(dir, BundleFile)
	return file, bundle.Write(file, from, key, predicates(&statement)...)
}

// gather puts the contents of a bundle into a directory: the plan, each record, the results and
// the logs, without possible secrets. Reports are rendered from these.
func gather(dir, to string, v *run.Verdicts) error {
	r := redact.New()
	p := v.Plan.Redacted(r)
	if err := p.Save(to); err != nil {
		return err
	}
	for _, s := range p.Scenarios {
		seen := v.Record(s.Metadata.Name)
		if seen == nil {
			continue
		}
		put := link
		if seen.Complete {
			put = pack
		}
		if err := put(filepath.Join(record.Dir(dir, s.Metadata.Name), record.FileName), filepath.Join(record.Dir(to, s.Metadata.Name), record.FileName)); err != nil {
			return err
		}
	}
	text, err := v.JSON(p)
	if err != nil {
		return err
	}
	if err := compress(filepath.Join(to, resultsFile), func(out io.Writer) error { _, err := out.Write(text); return err }); err != nil {
		return err
	}
	return packLogs(r, filepath.Join(dir, "logs"), filepath.Join(to, "logs"))
}

// link makes a file appear in another place, as a hard link or, if that fails, as a copy.
func link(from, to string) error {
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	if os.Link(from, to) == nil {
		return nil
	}
	data, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, data, 0o644)
}

// pack writes a complete record with the best compression.
func pack(from, to string) error {
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.Create(to)
	if err != nil {
		return err
	}
	return errors.Join(record.Pack(out, in), out.Close())
}

// logLimit is the size to which each log in a bundle is cut, keeping its end.
const logLimit = 512 << 10

// packLogs copies component logs, compressed and without secrets, which records do not have: their
// writer removes them. It skips audit logs, since the records have what judges need from them, and
// the containers' logs under their second name, as kind exports them.
func packLogs(r *redact.Redactor, from, to string) error {
	err := filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && d.Name() == "containers" {
			if _, err := os.Stat(filepath.Join(filepath.Dir(path), "pods")); err == nil {
				return fs.SkipDir
			}
		}
		if err != nil || d.IsDir() || !d.Type().IsRegular() || strings.HasPrefix(d.Name(), "audit") || !strings.HasSuffix(d.Name(), ".log") {
			return err
		}
		name, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		return packLog(r, path, filepath.Join(to, name+".zst"))
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

func packLog(r *redact.Redactor, from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	lines := bufio.NewReader(in)
	if info, err := in.Stat(); err == nil && info.Size() > logLimit {
		if _, err := in.Seek(-logLimit, io.SeekEnd); err != nil {
			return err
		}
		if _, err := lines.ReadString('\n'); err != nil && !errors.Is(err, io.EOF) { // without its beginning the redactor may not see what a line is
			return err
		}
	}
	return compress(to, func(out io.Writer) error { return r.Copy(out, lines) })
}

// compress writes a file with the best compression.
func compress(to string, write func(io.Writer) error) error {
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	out, err := os.Create(to)
	if err != nil {
		return err
	}
	enc, err := zstd.NewWriter(out, zstd.WithEncoderLevel(zstd.SpeedBestCompression))
	if err != nil {
		return errors.Join(err, out.Close())
	}
	return errors.Join(write(enc), enc.Close(), out.Close())
}

// BundleError is the error of Sign for a bundle that cannot be read, or is not valid.
type BundleError struct{ Err error }

func (e *BundleError) Error() string { return e.Err.Error() }

func (e *BundleError) Unwrap() error { return e.Err }

// Sign signs the bundle in a file with an identity, and states its test result; see
// keyless.Sign.
func Sign(ctx context.Context, file, signingConfig, token string) error {
	dir, err := os.MkdirTemp("", "holdfast-sign-")
	if err != nil {
		return &BundleError{err}
	}
	defer os.RemoveAll(dir)
	b, err := bundle.Open(file, dir)
	if err != nil {
		return &BundleError{err}
	}
	body, ok := b.Predicate(TestResultType)
	if !ok {
		return &BundleError{fmt.Errorf("it has no statement of type %s, which holdfast certify writes", TestResultType)}
	}
	return keyless.Sign(ctx, file, bundle.Predicate{Name: "test-result", Type: TestResultType, Body: json.RawMessage(body)}, signingConfig, token)
}

// predicates are those of a bundle's statements, in order, with the statement of the maker.
func predicates(s *Statement) []bundle.Predicate {
	return []bundle.Predicate{
		{Name: "test-result", Type: TestResultType, Body: summaryOf(s.Outcome, s.Tool)},
		{Name: "verdicts", Type: VerdictsType, Body: s},
	}
}

// statementOf reads the statement of a bundle.
func statementOf(b *bundle.Bundle) (*Statement, error) {
	body, ok := b.Predicate(VerdictsType)
	if !ok {
		return nil, fmt.Errorf("the bundle has no statement of type %s", VerdictsType)
	}
	var s Statement
	if err := json.Unmarshal(body, &s); err != nil {
		return nil, fmt.Errorf("the statement cannot be read: %w", err)
	}
	if s.Outcome == nil {
		return nil, errors.New("the statement has no outcome")
	}
	return &s, nil
}
