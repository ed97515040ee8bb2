package judge

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/holdfast-ha/holdfast/framework/judge/internal/judges"
)

func TestDocs(t *testing.T) {
	if docs := Docs(); len(docs) != len(Names())+1 || !slices.IsSorted(Names()) {
		t.Errorf("%d docs, names %q", len(docs), Names())
	}
	for _, d := range Docs() {
		if d.Name == "" || !strings.HasSuffix(d.Guarantee, ".") || d.Source == "" {
			t.Errorf("%+v", d)
		}
	}
	for _, d := range judges.RunWide() {
		if !strings.HasPrefix(d.Invariant, "HA-INV-") {
			t.Errorf("%s settles %q in every scenario, want an invariant", d.Name, d.Invariant)
		}
	}
	for _, d := range judges.Definitions() {
		if d.Invariant != "" {
			t.Errorf("%s settles %s, but is no judge of every run", d.Name, d.Invariant)
		}
	}
}

// The page about scenarios names each judge and each of its parameters.
func TestDocsOfScenarios(t *testing.T) {
	page, err := os.ReadFile("../../docs/scenarios.md")
	if err != nil {
		t.Fatal(err)
	}
	_, requirements, _ := strings.Cut(string(page), "\n## Requirements\n")
	table, invariants, found := strings.Cut(requirements, "\n### Invariants\n")
	if !found {
		t.Fatal("the page has no section Invariants")
	}
	for _, d := range judges.Nameable() {
		text := invariants
		if d.Invariant == "" {
			text = ""
			for line := range strings.Lines(table) {
				if cells := strings.Split(line, "|"); len(cells) > 2 && strings.Contains(cells[1], "`"+d.Name+"`") {
					text = line
				}
			}
		}
		if !strings.Contains(text, "`"+d.Name+"`") {
			t.Errorf("the page does not name %s", d.Name)
		}
		for name := range d.Params {
			if !strings.Contains(text, "`"+name+"`") && !strings.Contains(text, "`"+name+": ") {
				t.Errorf("the page does not say that %s accepts %s", d.Name, name)
			}
		}
	}
}

// A judge that reads a clock, a file or the network is not a judge.
func TestPure(t *testing.T) {
	layers := map[string]bool{}
	err := filepath.WalkDir(".", func(file string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(file, ".go") || strings.HasSuffix(file, "_test.go") {
			return err
		}
		layers[filepath.ToSlash(filepath.Dir(file))] = true
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		for _, call := range []string{"time.Now", "time.Since", "rand."} {
			if strings.Contains(string(text), call) {
				t.Errorf("%s uses %s", file, call)
			}
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, text, parser.ImportsOnly)
		if err != nil {
			return err
		}
		for _, imp := range parsed.Imports {
			path, _ := strconv.Unquote(imp.Path.Value)
			if path == "os" || path == "net" || strings.HasPrefix(path, "net/") || path == "os/exec" || path == "math/rand/v2" {
				t.Errorf("%s imports %s", file, path)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, layer := range []string{".", "internal/judges", "internal/facts"} {
		if !layers[layer] {
			t.Errorf("no file of %s was looked at", layer)
		}
	}
}
