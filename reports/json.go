package reports

import (
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"al.essio.dev/pkg/shellescape"
	json2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	jsonv1 "github.com/go-json-experiment/json/v1"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

// ResultsFile is the name of the file that Load reads.
const ResultsFile = "results.json"

// Schema is the published JSON schema of results.json, generated from the type Results by go
// generate ./cmd/holdfast.
//
//go:embed results.schema.json
var Schema []byte

// WriteJSON writes v indented, like all JSON of holdfast: durations as in Kubernetes, such as
// "1m30s", and empty lists as [].
func WriteJSON(w io.Writer, v any) error {
	durations := json2.MarshalFunc(func(d time.Duration) ([]byte, error) { return json.Marshal(d.String()) })
	err := json2.MarshalWrite(w, v, json2.WithMarshalers(durations), json2.Deterministic(true),
		jsonv1.OmitEmptyWithLegacySemantics(true), jsontext.WithIndent("  "), jsontext.AllowInvalidUTF8(true))
	if err != nil {
		return err
	}
	_, err = io.WriteString(w, "\n")
	return err
}

// ReadJSON reads what WriteJSON wrote. It refuses unknown fields.
func ReadJSON(data []byte, v any) error {
	durations := json2.UnmarshalFunc(func(text []byte, d *time.Duration) (err error) {
		var s string
		if err := json.Unmarshal(text, &s); err != nil {
			return err
		}
		*d, err = time.ParseDuration(s)
		return err
	})
	return json2.Unmarshal(data, v, json2.WithUnmarshalers(durations), json2.RejectUnknownMembers(true))
}

// Load reads the results.json of a results directory. It is strict: it refuses a file that does
// not match the schema, and names the place.
func Load(dir string) (*Results, error) {
	path := filepath.Join(dir, ResultsFile)
	data, err := os.ReadFile(path)
	if why := NotDirectory(dir); why != "" {
		return nil, fmt.Errorf("failed to read results: %s %s", dir, why)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("failed to read results: %s has no %s: name a directory that holdfast run or holdfast certify wrote with --out, or derive the results again from its record with: holdfast report %s",
			dir, ResultsFile, dir)
	}
	if err != nil {
		return nil, fmt.Errorf("failed to read results: %w", err)
	}
	var r Results
	if err = Validate(data); err == nil {
		err = ReadJSON(data, &r)
	}
	if err != nil {
		return nil, fmt.Errorf("failed to read results: %s: %w", path, err)
	}
	return &r, nil
}

// NotDirectory says why a path cannot be that of a results directory, as the end of a sentence
// about it; empty if it is a directory.
func NotDirectory(path string) string {
	switch info, err := os.Stat(path); {
	case errors.Is(err, fs.ErrNotExist):
		return "does not exist"
	case err == nil && !info.IsDir():
		return "is a file and not a directory; if it is a bundle, unpack it first with: mkdir DIR && tar -xf " + shellescape.Quote(path) + " -C DIR"
	}
	return ""
}

// Validate reports where data violates the schema of results.json; nil if it does not.
func Validate(data []byte) error {
	// Checked first, since a wrong version causes all other errors.
	var version struct {
		Version *int `json:"version"`
	}
	if err := json.Unmarshal(data, &version); err != nil {
		return fmt.Errorf("not valid JSON, perhaps cut short: %w", err)
	}
	if version.Version != nil && *version.Version != FormatVersion {
		return fmt.Errorf("format version %d, but this holdfast reads version %d: use the holdfast that wrote it", *version.Version, FormatVersion)
	}
	schema, err := compiledSchema()
	if err != nil {
		return err
	}
	value, err := jsonschema.UnmarshalJSON(strings.NewReader(string(data)))
	if err != nil {
		return fmt.Errorf("not valid JSON, perhaps cut short: %w", err)
	}
	if err := schema.Validate(value); err != nil {
		return fmt.Errorf("not a results file of holdfast: %s", places(err))
	}
	return nil
}

var compiledSchema = sync.OnceValues(func() (*jsonschema.Schema, error) {
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(string(Schema)))
	if err != nil {
		return nil, fmt.Errorf("failed to read the schema of %s: %w", ResultsFile, err)
	}
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	if err := c.AddResource("results.schema.json", doc); err != nil {
		return nil, fmt.Errorf("failed to read the schema of %s: %w", ResultsFile, err)
	}
	return c.Compile("results.schema.json")
})

// places formats a schema violation as "at '/run/seed': ...", one per cause.
func places(err error) string {
	var invalid *jsonschema.ValidationError
	if !errors.As(err, &invalid) {
		return err.Error()
	}
	var lines []string
	for line := range strings.Lines(invalid.Error()) {
		line = strings.TrimLeft(strings.TrimSpace(line), "- ")
		if strings.HasPrefix(line, "at ") && !strings.HasSuffix(line, "failed") {
			lines = append(lines, line)
		}
	}
	if len(lines) == 0 {
		return OneLine(invalid.Error())
	}
	return strings.Join(lines, "; ")
}
