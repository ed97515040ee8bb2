package scenarios

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
	"golang.org/x/text/language"
	"golang.org/x/text/message"

	"github.com/holdfast-ha/holdfast/framework/engine"
	"github.com/holdfast-ha/holdfast/framework/fault"
	"github.com/holdfast-ha/holdfast/framework/judge"
	"github.com/holdfast-ha/holdfast/framework/nearest"
	"github.com/holdfast-ha/holdfast/framework/workload"
)

// object is a part of a JSON schema.
type object = map[string]any

// duration is a duration as time.ParseDuration reads it.
const duration = `^([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+$`

// aboveZero matches every duration longer than zero.
const aboveZero = "[1-9]"

// Schema returns the JSON schema (draft 2020-12) of scenario files that are loaded with these
// options. The loader validates files against it, and editors can.
func Schema(options ...Option) ([]byte, error) {
	s := schemaOf(reflect.TypeFor[Scenario](), "", details(collect(options)))
	s["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	s["title"] = "A scenario of holdfast: one experiment and the requirements that it settles"
	b, err := json.MarshalIndent(s, "", "  ")
	return append(b, '\n'), err
}

// schemaOf returns the schema of a type of this package; path leads to it from the file's top.
func schemaOf(t reflect.Type, path string, details map[string]object) object {
	s := object{}
	switch {
	case t == reflect.TypeFor[time.Duration]():
		s["type"], s["pattern"], s["allOf"] = "string", duration, []object{{"pattern": aboveZero}}
	case t.Kind() == reflect.Pointer:
		return schemaOf(t.Elem(), path, details)
	case t.Kind() == reflect.Struct:
		properties := object{}
		for i := range t.NumField() {
			if name := t.Field(i).Tag.Get("yaml"); name != "" {
				properties[name] = schemaOf(t.Field(i).Type, strings.TrimPrefix(path+"."+name, "."), details)
			}
		}
		s["type"], s["properties"], s["additionalProperties"] = "object", properties, false
	case t.Kind() == reflect.Slice:
		s["type"], s["items"] = "array", schemaOf(t.Elem(), path+"[]", details)
	case t.Kind() == reflect.Map && t.Elem().Kind() == reflect.String:
		// YAML writes 3 and true without quotes.
		s["type"], s["additionalProperties"] = "object", object{"type": []string{"string", "number", "boolean"}}
	case t.Kind() == reflect.Map:
		s["type"], s["additionalProperties"] = "object", schemaOf(t.Elem(), path+"{}", details)
	case t.Kind() == reflect.Int:
		s["type"], s["minimum"], s["maximum"] = "integer", 0, 1<<20
	default:
		s["type"] = map[reflect.Kind]string{reflect.String: "string", reflect.Bool: "boolean"}[t.Kind()]
	}
	maps.Copy(s, details[path])
	return s
}

// details returns what the types do not express, by path.
func details(own engine.Options) map[string]object {
	var faults []string
	for _, f := range slices.Concat(fault.All(), own.Faults) {
		faults = append(faults, f.Name)
	}
	about := func(text string) object { return object{"description": text} }
	oneOf := func(text string, values []string) object { return object{"description": text, "enum": values} }
	nodes := func(text string) object { return object{"description": text, "minimum": 0, "maximum": 7} }
	return map[string]object{
		"":                                 {"required": []string{"apiVersion", "kind", "metadata", "spec"}},
		"apiVersion":                       {"const": APIVersion},
		"kind":                             {"const": Kind},
		"metadata.name":                    {"description": "A DNS label.", "pattern": `^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`},
		"spec":                             {"required": []string{"timeline", "requirements"}},
		"spec.summary":                     about("What is done, in a sentence."),
		"spec.profiles[]":                  {"enum": Profiles},
		"spec.eachNode":                    about("On a cluster with more nodes than the timeline names, repeat the scenario with each node as the victim."),
		"spec.minNodes":                    nodes("The least number of control-plane nodes that it can run on."),
		"spec.maxNodes":                    nodes("The greatest number of control-plane nodes that it can run on."),
		"spec.cluster":                     about("What the scenario asks of its cluster; the rest is as the run has it."),
		"spec.cluster.topology":            oneOf("A cluster of the catalogue's by name; no other field but own and needs is set then.", slices.Sorted(maps.Keys(Topologies()))),
		"spec.traffic":                     about("What clients do throughout."),
		"spec.traffic.profiles[]":          {"enum": workload.ProfileNames()},
		"spec.probes":                      about("Requests of the observers through each entrance, by which availability is judged."),
		"spec.probes.interval":             about("Between two quorum reads on a persistent connection, 10ms to 1s, 100ms by default; all other probes are less frequent in proportion."),
		"spec.timeline":                    {"description": "The steps, one after another.", "minItems": 1},
		"spec.timeline[]":                  {"description": "Exactly one of its fields is set.", "minProperties": 1, "maxProperties": 1},
		"spec.timeline[].inject":           {"description": "Breaks something.", "required": []string{"fault", "target", "as"}},
		"spec.timeline[].inject.fault":     oneOf("See holdfast faults.", faults),
		"spec.timeline[].inject.target":    about("What is broken, such as etcd/leader, apiserver/2 or kcm/active."),
		"spec.timeline[].inject.as":        about("The name by which later steps and requirements refer to it."),
		"spec.timeline[].inject.ttl":       about("When the provider heals it automatically; a formula such as 2L."),
		"spec.timeline[].heal":             about("The injection to heal, or several, separated by commas: they are healed at the same time."),
		"spec.timeline[].wait":             about("How long to do nothing; a formula such as 2E + M, or a duration."),
		"spec.timeline[].until":            {"description": "Waits for a condition.", "required": []string{"condition", "atMost"}},
		"spec.timeline[].until.condition":  {"enum": engine.Conditions()},
		"spec.timeline[].until.atMost":     about("How long to wait; a formula. Reaching it is not an error."),
		"spec.timeline[].until.fault":      about("The injection that the condition is about."),
		"spec.timeline[].action":           {"description": "Makes requests that a judge needs.", "required": []string{"name"}},
		"spec.timeline[].action.name":      {"enum": engine.Actions()},
		"spec.timeline[].action.fault":     about("The injection that the action is about."),
		"spec.timeline[].action.node":      about("The node that the action changes, such as node/2 or node/leader, or the name of one that was added."),
		"spec.timeline[].action.to":        about("The version to upgrade to, such as v1.37.1."),
		"spec.timeline[].action.interrupt": map[string]any{"description": "The number of the step after which the change of a node is interrupted. An addition is then undone, any other change finished.", "minimum": 1},
		"spec.timeline[].action.undo":      about("true: an interrupted upgrade or replacement of the CAs is rolled back instead of finished."),
		"spec.timeline[].action.args":      about("Arguments to restart components with, by component and by flag."),
		"spec.requirements":                {"description": "What the record of it settles.", "minItems": 1},
		"spec.requirements[]":              {"required": []string{"id", "judge"}},
		"spec.requirements[].id":           {"description": "One of the catalogue's IDs, which begin with HA-, or one of your own, which do not.", "minLength": 1},
		"spec.requirements[].judge":        {"enum": judge.Names(own.Judges...)},
		"spec.requirements[].bound":        about("The limit; a formula such as T + I + M."),
		"spec.requirements[].fault":        about("The injection that the requirement is about."),
	}
}

// format is the schema that scenario files are validated against.
type format struct {
	schema object
	valid  *jsonschema.Schema
}

// builtIn is the format of files without user-defined names.
var builtIn = sync.OnceValues(func() (*format, error) { return newFormat() })

// formatOf returns the format of files that are loaded with these options.
func formatOf(options []Option) (*format, error) {
	if len(options) == 0 {
		return builtIn()
	}
	return newFormat(options...)
}

func newFormat(options ...Option) (*format, error) {
	text, err := Schema(options...)
	if err != nil {
		return nil, err
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("scenario.schema.json", doc); err != nil {
		return nil, err
	}
	valid, err := c.Compile("scenario.schema.json")
	if err != nil {
		return nil, err
	}
	f := &format{valid: valid}
	return f, json.Unmarshal(text, &f.schema)
}

// violation is one place where a file violates the schema.
type violation struct{ path, text string }

// violations validates a file's content.
func (f *format) violations(content any) ([]violation, error) {
	var invalid *jsonschema.ValidationError
	if err := f.valid.Validate(content); !errors.As(err, &invalid) {
		return nil, err
	}
	var all []violation
	var gather func(e *jsonschema.ValidationError)
	gather = func(e *jsonschema.ValidationError) {
		for _, cause := range e.Causes {
			gather(cause)
		}
		if len(e.Causes) == 0 {
			all = append(all, f.explain(e, content)...)
		}
	}
	gather(invalid)
	slices.SortFunc(all, func(a, b violation) int { return strings.Compare(a.path, b.path) })
	return all, nil
}

// formulas are the fields that hold a formula.
var formulas = []string{"wait", "atMost", "ttl", "bound"}

// explain describes the violations in one place of a file's content.
func (f *format) explain(e *jsonschema.ValidationError, content any) []violation {
	path, last := "", ""
	for _, part := range e.InstanceLocation {
		last = part
		switch within := content.(type) {
		case object:
			content = within[part]
		case []any:
			i, _ := strconv.Atoi(part)
			content = within[i]
		}
		if strings.Trim(part, "0123456789") == "" {
			path += "[" + part + "]"
		} else {
			path = strings.TrimPrefix(path+"."+part, ".")
		}
	}
	part := f.part(e.SchemaURL)
	switch k := e.ErrorKind.(type) {
	case *kind.AdditionalProperties:
		var all []violation
		for _, p := range k.Properties {
			allowed := names(part["properties"])
			all = append(all, violation{strings.TrimPrefix(path+"."+p, "."), "unknown field; allowed here: " + strings.Join(allowed, ", ") + nearest.Meant(allowed, p)})
		}
		return all
	case *kind.Enum:
		got := fmt.Sprint(k.Got)
		return []violation{{path, fmt.Sprintf("%q is not one of %s%s", got, strings.Join(names(part["enum"]), ", "), nearest.Meant(names(part["enum"]), got))}}
	case *kind.Const:
		return []violation{{path, fmt.Sprintf("%q: want %v", fmt.Sprint(k.Got), k.Want)}}
	case *kind.Type:
		want := wanted(k.Want)
		switch {
		case slices.Contains(formulas, last):
			want = "a time with a unit or a formula, such as 4s or 2E + M"
		case part["pattern"] == duration:
			want = "a duration such as 500ms or 5s"
		}
		if k.Got == "object" || k.Got == "array" || k.Got == "null" {
			return []violation{{path, "want " + want}}
		}
		return []violation{{path, fmt.Sprintf("%q: want %s", fmt.Sprint(content), want)}}
	case *kind.Pattern:
		switch k.Want {
		case aboveZero:
			return []violation{{path, fmt.Sprintf("%q is not a time above zero; leave it out for the default", k.Got)}}
		case duration:
			return []violation{{path, fmt.Sprintf("%q: want a duration such as 500ms or 5s", k.Got)}}
		}
	case *kind.Required:
		var all []violation
		for _, p := range k.Missing {
			all = append(all, violation{strings.TrimPrefix(path+"."+p, "."), "is missing"})
		}
		return all
	case *kind.MinProperties, *kind.MaxProperties:
		return []violation{{path, "a step is exactly one of " + strings.Join(names(part["properties"]), ", ")}}
	}
	return []violation{{path, e.ErrorKind.LocalizedString(message.NewPrinter(language.English))}}
}

// part returns the part of the schema with an address such as "...#/properties/spec".
func (f *format) part(address string) object {
	_, pointer, _ := strings.Cut(address, "#")
	var at any = f.schema
	for _, step := range strings.Split(strings.Trim(pointer, "/"), "/") {
		if part, ok := at.(object); ok && step != "" {
			at = part[step]
		}
	}
	part, _ := at.(object)
	return part
}

// names are values, or fields.
func names(values any) (names []string) {
	switch v := values.(type) {
	case []any:
		for _, value := range v {
			names = append(names, fmt.Sprint(value))
		}
	case object:
		names = slices.Sorted(maps.Keys(v))
	}
	return names
}

// wanted describes the wanted types in words of YAML.
func wanted(types []string) string {
	words := map[string]string{"object": "fields", "array": "a list", "integer": "a whole number", "boolean": "true or false", "string": "text"}
	if len(types) == 1 && words[types[0]] != "" {
		return words[types[0]]
	}
	return "a single value"
}
