package scenarios

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/engine"
	"github.com/holdfast-ha/holdfast/framework/fault"
	"github.com/holdfast-ha/holdfast/framework/judge"
	"github.com/holdfast-ha/holdfast/framework/workload"
	"github.com/holdfast-ha/holdfast/framework/yamlfile"
)

// object is a part of a JSON schema.
type object = map[string]any

// aboveZero matches every duration longer than zero.
const aboveZero = "[1-9]"

// Schema returns the JSON schema (draft 2020-12) of scenario files that are loaded with these
// options. Editors validate files against it; the loader applies the same types and rules.
func Schema(options ...Option) ([]byte, error) {
	s := schemaOf(reflect.TypeFor[Scenario](), "", rules(collect(options)))
	s["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	s["title"] = "A scenario of holdfast: one experiment and the requirements that it settles"
	b, err := json.MarshalIndent(s, "", "  ")
	return append(b, '\n'), err
}

// schemaOf returns the schema of a type of this package; path leads to it from the file's top.
func schemaOf(t reflect.Type, path string, rules map[string]yamlfile.Rule) object {
	s := object{}
	switch {
	case t == reflect.TypeFor[time.Duration]():
		s["type"], s["pattern"], s["allOf"] = "string", yamlfile.DurationPattern, []object{{"pattern": aboveZero}}
	case t.Kind() == reflect.Pointer:
		return schemaOf(t.Elem(), path, rules)
	case t.Kind() == reflect.Struct:
		properties := object{}
		for _, field := range reflect.VisibleFields(t) {
			if name := yamlfile.FieldName(field); name != "" {
				properties[name] = schemaOf(field.Type, strings.TrimPrefix(path+"."+name, "."), rules)
			}
		}
		s["type"], s["properties"], s["additionalProperties"] = "object", properties, false
	case t.Kind() == reflect.Slice:
		s["type"], s["items"] = "array", schemaOf(t.Elem(), path+"[]", rules)
	case t.Kind() == reflect.Map && t.Elem().Kind() == reflect.String:
		// YAML writes 3 and true without quotes.
		s["type"], s["additionalProperties"] = "object", object{"type": []string{"string", "number", "boolean"}}
	case t.Kind() == reflect.Map:
		s["type"], s["additionalProperties"] = "object", schemaOf(t.Elem(), path+"{}", rules)
	case t.Kind() == reflect.Int:
		s["type"], s["minimum"], s["maximum"] = "integer", 0, yamlfile.MaxNumber
	default:
		s["type"] = map[reflect.Kind]string{reflect.String: "string", reflect.Bool: "boolean"}[t.Kind()]
	}
	rule := rules[path]
	if rule.OneField {
		s["minProperties"], s["maxProperties"] = 1, 1
	}
	b, err := json.Marshal(rule)
	if err == nil {
		err = json.Unmarshal(b, &s)
	}
	if err != nil {
		panic(err) // a rule has nothing but texts and numbers
	}
	return s
}

// rules returns what the types do not express, by path.
func rules(own engine.Options) map[string]yamlfile.Rule {
	faults := framework.Names(slices.Concat(fault.All(), own.Faults), func(f *fault.Fault) string { return f.Name })
	type rule = yamlfile.Rule
	about := func(text string) rule { return rule{Description: text} }
	oneOf := func(text string, values []string) rule { return rule{Description: text, OneOf: values} }
	nodes := func(text string) rule { return rule{Description: text, Maximum: 7} }
	formula := func(text string) rule {
		return rule{Description: text, Want: "a time with a unit or a formula, such as 4s or 2E + M"}
	}
	return map[string]rule{
		"":                                 {Required: []string{"apiVersion", "kind", "metadata", "spec"}},
		"apiVersion":                       {OneOf: []string{APIVersion}},
		"kind":                             {OneOf: []string{Kind}},
		"metadata.name":                    {Description: "A DNS label.", Want: "a DNS label", Pattern: `^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`},
		"spec":                             {Required: []string{"timeline", "requirements"}},
		"spec.summary":                     about("What is done, in a sentence."),
		"spec.profiles[]":                  {OneOf: Profiles},
		"spec.eachNode":                    about("On a cluster with more nodes than the timeline names, repeat the scenario with each node as the victim."),
		"spec.minNodes":                    nodes("The least number of control-plane nodes that it can run on."),
		"spec.maxNodes":                    nodes("The greatest number of control-plane nodes that it can run on."),
		"spec.cluster":                     about("What the scenario asks of its cluster; the rest is as the run has it."),
		"spec.cluster.topology":            oneOf("A cluster of the catalogue's by name; no other field but own and needs is set then.", slices.Sorted(maps.Keys(Topologies()))),
		"spec.traffic":                     about("What clients do throughout."),
		"spec.traffic.profiles[]":          {OneOf: workload.ProfileNames()},
		"spec.probes":                      about("Requests of the observers through each entrance, by which availability is judged."),
		"spec.probes.interval":             about("Between two quorum reads on a persistent connection, 10ms to 1s, 100ms by default; all other probes are less frequent in proportion."),
		"spec.timeline":                    {Description: "The steps, one after another.", MinItems: 1},
		"spec.timeline[]":                  {Description: "Exactly one of its fields is set.", OneField: true},
		"spec.timeline[].inject":           {Description: "Breaks something.", Required: []string{"fault", "target", "as"}},
		"spec.timeline[].inject.fault":     oneOf("See holdfast faults.", faults),
		"spec.timeline[].inject.target":    about("What is broken, such as etcd/leader, apiserver/2 or kcm/active."),
		"spec.timeline[].inject.as":        about("The name by which later steps and requirements refer to it."),
		"spec.timeline[].inject.ttl":       formula("When the provider heals it automatically; a formula such as 2L."),
		"spec.timeline[].heal":             about("The injection to heal, or several, separated by commas: they are healed at the same time."),
		"spec.timeline[].wait":             formula("How long to do nothing; a formula such as 2E + M, or a duration."),
		"spec.timeline[].until":            {Description: "Waits for a condition.", Required: []string{"condition", "atMost"}},
		"spec.timeline[].until.condition":  {OneOf: engine.Conditions()},
		"spec.timeline[].until.atMost":     formula("How long to wait; a formula. Reaching it is not an error."),
		"spec.timeline[].until.fault":      about("The injection that the condition is about."),
		"spec.timeline[].action":           {Description: "Makes requests that a judge needs.", Required: []string{"name"}},
		"spec.timeline[].action.name":      {OneOf: engine.Actions()},
		"spec.timeline[].action.fault":     about("The injection that the action is about."),
		"spec.timeline[].action.node":      about("The node that the action changes, such as node/2 or node/leader, or the name of one that was added."),
		"spec.timeline[].action.to":        about("The version to upgrade to, such as v1.37.1."),
		"spec.timeline[].action.interrupt": {Description: "The number of the step after which the change of a node is interrupted. An addition is then undone, any other change finished.", Minimum: 1},
		"spec.timeline[].action.undo":      about("true: an interrupted upgrade or replacement of the CAs is rolled back instead of finished."),
		"spec.timeline[].action.args":      about("Arguments to restart components with, by component and by flag."),
		"spec.requirements":                {Description: "What the record of it settles.", MinItems: 1},
		"spec.requirements[]":              {Required: []string{"id", "judge"}},
		"spec.requirements[].id":           {Description: "One of the catalogue's IDs, which begin with HA-, or one of your own, which do not.", MinLength: 1},
		"spec.requirements[].judge":        {OneOf: judge.Names(own.Judges...)},
		"spec.requirements[].bound":        formula("The limit; a formula such as T + I + M."),
		"spec.requirements[].fault":        about("The injection that the requirement is about."),
	}
}
