package scenarios

import (
	"bytes"
	"os"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v3"
)

// Editors that validate files against the schema report what the loader reports.
func TestSchemaAgreesWithLoader(t *testing.T) {
	text, err := Schema()
	if err != nil {
		t.Fatal(err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("scenario.schema.json", doc); err != nil {
		t.Fatal(err)
	}
	schema := c.MustCompile("scenario.schema.json")
	validate := func(file []byte) error {
		var content any
		if err := yaml.Unmarshal(file, &content); err != nil {
			t.Fatal(err)
		}
		return schema.Validate(content)
	}
	for _, s := range All() {
		b, err := files.ReadFile(s.Metadata.Name + ".yaml")
		if err != nil {
			t.Fatal(err)
		}
		if err := validate(b); err != nil {
			t.Errorf("%s: %v", s.Metadata.Name, err)
		}
	}
	for _, name := range []string{"bad-interval", "bad-profile", "kind", "nothing-settled", "traffic-field", "traffic-profile", "two-steps",
		"unknown-fault", "unknown-field", "unknown-judge", "unknown-topology", "wrong-type"} {
		b, err := os.ReadFile("testdata/bad/" + name + ".yaml")
		if err != nil {
			t.Fatal(err)
		}
		if validate(b) == nil {
			t.Errorf("the schema accepts %s.yaml", name)
		}
	}
	// The same differences between YAML's types.
	for line, want := range map[string]bool{
		"summary: 7": false, "summary: ~": false, "eachNode: yes": false, "minNodes: '3'": false, "minNodes: 8": false, "traffic: {}": true, "traffic:": false,
		"traffic: {timeout: 0s}": false, "traffic: {timeout: -5s}": false, "traffic: {timeout: .5s}": false, "traffic: {timeout: 1m30s}": true,
		"cluster: {extraArgs: {etcd: {v: 3}}}": true, "cluster: {extraArgs: {etcd: {v: ~}}}": false,
	} {
		file := []byte(written("", kill, "8s", "2s", "") + "  " + line + "\n")
		if line[:5] == "traff" {
			file = bytes.Replace(file, []byte("  traffic: {}\n"), nil, 1)
		}
		if _, err := Parse("x.yaml", file); (err == nil) != want || (validate(file) == nil) != want {
			t.Errorf("%s: the loader returns %v, the schema %v, want accepted = %t", line, err, validate(file), want)
		}
	}
}
