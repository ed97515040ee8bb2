package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"maps"
	"net/netip"
	"os"
	"path"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/invopop/jsonschema"
	"github.com/rogpeppe/go-internal/testscript"
	validator "github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/spf13/cobra"

	"github.com/holdfast-ha/holdfast/framework/judge"
	"github.com/holdfast-ha/holdfast/framework/record"
	"github.com/holdfast-ha/holdfast/reports"
	"github.com/holdfast-ha/holdfast/suites/run"
)

// printed is the type that the command prints as JSON.
func (o *outputFlag[T]) printed() reflect.Type { return reflect.TypeFor[T]() }

var update = flag.Bool("update", false, "write schemas/*.json")

// Each command with -o json has a published schema, generated from the type that it prints and
// that type's comments.
func TestSchemas(t *testing.T) {
	printed := map[string]reflect.Type{"plan": reflect.TypeFor[*run.Plan](), "results": reflect.TypeFor[*reports.Results]()}
	eachCommand(newRootCommand(), func(cmd *cobra.Command) {
		f := cmd.Flags().Lookup("output")
		if f == nil {
			return
		}
		o, ok := f.Value.(interface{ printed() reflect.Type })
		if !ok {
			t.Errorf("%s: its flag -o says nothing of what it prints: use addOutputFlag", cmd.CommandPath())
			return
		}
		name := strings.ReplaceAll(strings.TrimPrefix(cmd.CommandPath(), "holdfast "), " ", "-")
		if o.printed() != reflect.TypeFor[*reports.Results]() { // reports publishes that one
			printed[name] = o.printed()
		}
	})
	comments := &jsonschema.Reflector{}
	if err := comments.AddGoComments("github.com/holdfast-ha/holdfast/cmd/holdfast", "../.."); err != nil {
		t.Fatal(err)
	}
	made := map[string][]byte{}
	for name, of := range printed {
		file := filepath.Join("schemas", name+".json")
		if name == "results" {
			file = "../../reports/results.schema.json"
		}
		made[file] = schemaFor(t, name, of, comments.CommentMap)
	}
	there, err := filepath.Glob("schemas/*.json")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range slices.Sorted(maps.Keys(made)) {
		there = slices.DeleteFunc(there, func(f string) bool { return f == file })
		was, err := os.ReadFile(file)
		switch {
		case err == nil && bytes.Equal(was, made[file]):
		case !*update:
			t.Errorf("%s is not what the command prints: run go generate ./cmd/holdfast (%v)", file, err)
		default:
			if err := os.WriteFile(file, made[file], 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, file := range there {
		t.Errorf("no command prints what %s describes: remove it", file)
	}
}

var camelCase = regexp.MustCompile(`^[a-z][A-Za-z0-9]*$`)

// schemaFor returns the schema of a type as JSON.
func schemaFor(t *testing.T, name string, of reflect.Type, comments map[string]string) []byte {
	named := map[string]reflect.Type{}
	r := &jsonschema.Reflector{Mapper: special, CommentMap: comments, Namer: func(t reflect.Type) string {
		name := t.Name()
		if first := named[name]; name != "" && first != nil && first != t {
			name = path.Base(t.PkgPath()) + "." + name
		}
		named[name] = t
		return name
	}}
	s := r.ReflectFromType(of)
	for name, d := range s.Definitions {
		if named[name].Kind() != reflect.Struct {
			continue
		}
		for _, field := range reflect.VisibleFields(named[name]) {
			// The library supports only omitempty.
			if tag, how, _ := strings.Cut(field.Tag.Get("json"), ","); strings.Contains(how, "omitzero") {
				d.Required = slices.DeleteFunc(d.Required, func(field string) bool { return field == tag })
			}
		}
	}
	s.ID = jsonschema.ID("https://holdfast-ha.github.io/schemas/" + name + ".json")
	s.Title = "holdfast " + strings.ReplaceAll(name, "-", " ") + " -o json"
	if name == "results" {
		s.ID = jsonschema.ID(fmt.Sprintf("https://holdfast-ha.github.io/schemas/results-v%d.json", reports.FormatVersion))
		s.Title = "holdfast results"
		s.Description = "results.json of a holdfast run: what was run, the verdict on each requirement of the catalogue, and the results per scenario that they were merged from."
	}
	for definition, d := range s.Definitions {
		for p := d.Properties.Oldest(); p != nil; p = p.Next() {
			if !camelCase.MatchString(p.Key) {
				t.Errorf("%s: %s.%s is not in camelCase", name, definition, p.Key)
			}
		}
	}
	text, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	return append(text, '\n')
}

func anys[T any](all []T) (some []any) {
	for _, one := range all {
		some = append(some, one)
	}
	return some
}

// special describes types whose JSON differs from their Go type.
func special(t reflect.Type) *jsonschema.Schema {
	switch t {
	case reflect.TypeFor[time.Duration]():
		return &jsonschema.Schema{Type: "string", Pattern: `^-?([0-9]+(\.[0-9]+)?(ns|µs|ms|s|m|h))+$`, Description: "A duration as in Kubernetes, such as 1m30s."}
	case reflect.TypeFor[netip.Addr](): // it marshals itself as text
		return &jsonschema.Schema{Type: "string"}
	case reflect.TypeFor[record.Nanos]():
		return &jsonschema.Schema{Type: "integer", Description: "Nanoseconds from the start of the record."}
	case reflect.TypeFor[record.Kind]():
		return &jsonschema.Schema{Enum: anys(record.Kinds())}
	case reflect.TypeFor[judge.Verdict]():
		return &jsonschema.Schema{Enum: []any{judge.Pass, judge.Fail, judge.Inconclusive, judge.NotApplicable}}
	}
	return nil
}

// conforms checks the last command's output against a schema: conforms kind engine status.
func conforms(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 {
		ts.Fatalf("usage: conforms SCHEMA")
	}
	ts.Check(followsSchema(strings.Join(args, " "), ts.ReadFile("stdout")))
}

// followsSchema reports where a command's JSON output breaks its schema; nil if it does not.
func followsSchema(name, printed string) error {
	text, err := schemaOf(name)
	if err != nil {
		return err
	}
	schema, err := validator.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return err
	}
	c := validator.NewCompiler()
	c.AssertFormat()
	if err := c.AddResource("schema.json", schema); err != nil {
		return err
	}
	compiled, err := c.Compile("schema.json")
	if err != nil {
		return err
	}
	for d := json.NewDecoder(strings.NewReader(printed)); ; {
		var document json.RawMessage
		if err := d.Decode(&document); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
		v, err := validator.UnmarshalJSON(bytes.NewReader(document))
		if err != nil {
			return err
		}
		if err := compiled.Validate(v); err != nil {
			return fmt.Errorf("it breaks the schema of %s: %w", name, err)
		}
	}
}

// A schema refuses output that its command cannot print.
func TestFollowsSchema(t *testing.T) {
	const good = `{"version": "v1", "go": "go1.26", "platform": "linux/amd64"}`
	if err := followsSchema("version", good); err != nil {
		t.Error(err)
	}
	for _, bad := range []string{`{"version": 1, "go": "", "platform": ""}`, `{"version": "v1"}`, strings.Replace(good, `"go"`, `"more": 1, "go"`, 1), good + `[]`, `{`} {
		if err := followsSchema("version", bad); err == nil {
			t.Errorf("accepted: %s", bad)
		}
	}
}
