// Command schema writes the JSON schema of results.json, made from the types and comments of
// package reports.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"time"

	"github.com/invopop/jsonschema"

	"github.com/holdfast-ha/holdfast/framework/judge"
	"github.com/holdfast-ha/holdfast/framework/record"
	"github.com/holdfast-ha/holdfast/reports"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "schema:", err)
		os.Exit(1)
	}
}

func run() error {
	r := &jsonschema.Reflector{Mapper: special}
	for _, dir := range []string{".", "../framework/judge", "../framework/judge/verdict"} {
		if err := r.AddGoComments("github.com/holdfast-ha/holdfast/reports", dir); err != nil {
			return err
		}
	}
	s := r.Reflect(&reports.Results{})
	s.ID = jsonschema.ID(fmt.Sprintf("https://holdfast-ha.github.io/schemas/results-v%d.json", reports.FormatVersion))
	s.Title = "holdfast results"
	s.Description = "results.json of a holdfast run: what was run, the verdict on each requirement of the catalogue, and the results per scenario that they were merged from."
	b, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile("results.schema.json", append(b, '\n'), 0o644)
}

// special describes the types whose JSON their Go type does not tell.
func special(t reflect.Type) *jsonschema.Schema {
	switch t {
	case reflect.TypeFor[time.Duration]():
		return &jsonschema.Schema{Type: "string", Pattern: `^-?([0-9]+(\.[0-9]+)?(ns|µs|ms|s|m|h))+$`, Description: "A duration as in Kubernetes, such as 1m30s."}
	case reflect.TypeFor[record.Nanos]():
		return &jsonschema.Schema{Type: "integer", Description: "Nanoseconds from the start of the record."}
	case reflect.TypeFor[judge.Verdict]():
		return &jsonschema.Schema{Enum: []any{judge.Pass, judge.Fail, judge.Inconclusive, judge.NotApplicable}}
	}
	return nil
}
