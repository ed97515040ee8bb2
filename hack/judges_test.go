package hack

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// registry lists the judges.
const registry = "registry.go"

// usesOfJudges returns where a file of one package uses declarations of a judge's file, except
// for the registry. A judge's file has a variable that is a Definition.
func usesOfJudges(files map[string]*ast.File) []string {
	owner := map[string]string{} // of each declaration in a judge's file
	for name, f := range files {
		if !hasJudge(f) {
			continue
		}
		for _, decl := range f.Decls {
			for _, declared := range declaredBy(decl) {
				owner[declared] = name
			}
		}
	}
	var uses []string
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if name == registry {
			continue
		}
		for used := range namesOutside(files[name]) {
			if of := owner[used]; of != "" && of != name {
				uses = append(uses, fmt.Sprintf("%s uses %s of the judge in %s", name, used, of))
			}
		}
	}
	slices.Sort(uses)
	return uses
}

func hasJudge(f *ast.File) bool {
	return slices.ContainsFunc(f.Decls, func(d ast.Decl) bool {
		vars, ok := d.(*ast.GenDecl)
		return ok && vars.Tok == token.VAR && slices.ContainsFunc(vars.Specs, func(s ast.Spec) bool {
			return slices.ContainsFunc(s.(*ast.ValueSpec).Values, func(value ast.Expr) bool {
				literal, ok := value.(*ast.CompositeLit)
				if !ok {
					return false
				}
				of, ok := literal.Type.(*ast.Ident)
				return ok && of.Name == "Definition"
			})
		})
	})
}

// declaredBy returns the package-level names of a declaration. Methods are found through their
// types.
func declaredBy(decl ast.Decl) (names []string) {
	switch d := decl.(type) {
	case *ast.FuncDecl:
		if d.Recv == nil {
			names = append(names, d.Name.Name)
		}
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			switch s := spec.(type) {
			case *ast.TypeSpec:
				names = append(names, s.Name.Name)
			case *ast.ValueSpec:
				for _, n := range s.Names {
					names = append(names, n.Name)
				}
			}
		}
	}
	return names
}

// namesOutside returns the names that a file uses and does not declare, except for the fields of
// literals.
func namesOutside(f *ast.File) map[string]bool {
	keys := map[*ast.Ident]bool{}
	ast.Inspect(f, func(n ast.Node) bool {
		if kv, ok := n.(*ast.KeyValueExpr); ok {
			if key, ok := kv.Key.(*ast.Ident); ok {
				keys[key] = true
			}
		}
		return true
	})
	names := map[string]bool{}
	for _, id := range f.Unresolved {
		if !keys[id] {
			names[id.Name] = true
		}
	}
	return names
}

// No judge uses another: what two judges need is a fact.
func TestJudgesStandAlone(t *testing.T) {
	const dir = "../framework/judge/internal/judges"
	paths, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	files, judges := map[string]*ast.File{}, 0
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		files[filepath.Base(path)] = f
		if hasJudge(f) {
			judges++
		}
	}
	if judges == 0 || files[registry] == nil {
		t.Fatalf("%s has %d files with a judge and a registry: %v, so the test looks in the wrong place", dir, judges, files[registry] != nil)
	}
	for _, use := range usesOfJudges(files) {
		t.Errorf("%s: move it to framework/judge/internal/facts, or to a file without a judge if it makes findings", use)
	}
}

// The check itself, with a judge that uses another and judges that do not.
func TestUsesOfJudges(t *testing.T) {
	files := map[string]*ast.File{}
	for name, body := range map[string]string{
		"a.go":        "var a = Definition{Limit: limit}\nconst limit = 1\ntype known struct{}\nfunc (known) shared() {}",
		"b.go":        "var b = Definition{limit: shared()}",
		"c.go":        "var c = Definition{func() int { limit := shared(); return limit }}",
		"bad.go":      "var bad = Definition{shared(), known{}}",
		"findings.go": "func shared() int { return limit }",
		"registry.go": "func all() []Definition { return []Definition{a, b, c, bad} }",
	} {
		f, err := parser.ParseFile(token.NewFileSet(), name, "package judges\n"+body, 0)
		if err != nil {
			t.Fatal(err)
		}
		files[name] = f
	}
	want := []string{"bad.go uses known of the judge in a.go", "findings.go uses limit of the judge in a.go"}
	if got := usesOfJudges(files); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
