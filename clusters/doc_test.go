package clusters

import (
	"os"
	"reflect"
	"strings"
	"testing"
)

// TestDocs checks that the examples of docs/cluster.md are valid cluster files, and that the page has
// every field.
func TestDocs(t *testing.T) {
	page, err := os.ReadFile("../docs/cluster.md")
	if err != nil {
		t.Fatal(err)
	}
	examples := strings.Split(string(page), "```yaml\n")[1:]
	if len(examples) < 2 {
		t.Fatalf("the page has %d examples", len(examples))
	}
	all := ""
	for _, e := range examples {
		e, _, _ = strings.Cut(e, "```")
		if _, err := Parse("cluster.md", []byte(e)); err != nil {
			t.Error(err)
		}
		all += e
	}
	for _, of := range []reflect.Type{reflect.TypeFor[Spec](), reflect.TypeFor[NodeSpec](), reflect.TypeFor[HealthCheck]()} {
		for i := range of.NumField() {
			f := of.Field(i)
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			if f.Tag.Get("file") != "-" && !strings.Contains(all, "  "+name+":") && !strings.Contains(all, "- "+name+":") {
				t.Errorf("no example has %s of a %s", name, of.Name())
			}
		}
	}
}
