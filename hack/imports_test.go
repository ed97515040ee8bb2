package hack

import (
	"fmt"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/holdfast-ha/holdfast"

// mayImport is the table of CONTRIBUTING.md: what the packages of a folder may import from this
// module. A folder covers its subfolders, and the longest match counts; every package must be
// covered.
var mayImport = map[string][]string{
	"cmd/holdfast":       {"suites", "scenarios", "framework", "clusters", "reports", "cmd/holdfast"},
	"cmd/holdfast-agent": {"clusters/agent"},
	"suites":             {"scenarios", "framework", "clusters", "reports", "suites"},
	"scenarios":          {"framework", "scenarios"},
	"framework":          {"framework"},
	// The layers of a judgement, from evaluation down to wording.
	"framework/judge":                 {"framework/record", "framework/judge"},
	"framework/judge/internal/judges": {"framework/record", "framework/judge/verdict", "framework/judge/internal/facts", "framework/judge/internal/text"},
	"framework/judge/internal/facts":  {"framework/record", "framework/judge/verdict", "framework/judge/internal/text"},
	"framework/judge/internal/text":   {"framework/record"},
	"framework/judge/verdict":         {"framework/record", "framework/judge/internal/text"},
	"clusters":                        {"framework", "clusters"},
	"reports":                         {"framework/record", "framework/judge", "reports"},
	"hack":                            {},
	".":                               {},
}

// checkImport reports what is wrong with a package in folder importing another one of this
// module, both relative to its root.
func checkImport(folder, imported string) error {
	within := func(dir, parent string) bool {
		return dir == parent || strings.HasPrefix(dir, parent+"/")
	}
	rule := folder
	for mayImport[rule] == nil {
		if rule == "." {
			return fmt.Errorf("no rule for the folder %s", folder)
		}
		rule = path.Dir(rule)
	}
	if rule == "." && folder != "." {
		return fmt.Errorf("no rule for the folder %s", folder)
	}
	if !slices.ContainsFunc(mayImport[rule], func(allowed string) bool { return within(imported, allowed) }) {
		return fmt.Errorf("%s must not import %s (only: %s)", folder, imported, strings.Join(mayImport[rule], ", "))
	}
	return nil
}

// Judges are pure: record, requirement and bounds in, verdicts out.
var judgeMustNot = []string{"context", "net", "net/http", "os", "os/exec", "io/fs", "k8s.io/client-go", "go.etcd.io/etcd/client"}

func checkJudge(file, imported string) error {
	if strings.HasSuffix(file, "_test.go") {
		return nil
	}
	for _, not := range judgeMustNot {
		if imported == not || strings.HasPrefix(imported, not+"/") {
			return fmt.Errorf("framework/judge must not import %s: a judge opens nothing and waits for nothing", imported)
		}
	}
	return nil
}

// checkKind confines kind's library to its provider.
func checkKind(folder, imported string) error {
	within := folder == "clusters/kind" || strings.HasPrefix(folder, "clusters/kind/")
	if strings.HasPrefix(imported, "sigs.k8s.io/kind") && !within {
		return fmt.Errorf("only clusters/kind may import %s", imported)
	}
	return nil
}

func TestImportsGoOneWay(t *testing.T) {
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	err = filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := d.Name()
		if d.IsDir() {
			if file != root && (name == "testdata" || name == "bin" || name == "results" || strings.HasPrefix(name, ".")) {
				return filepath.SkipDir
			}
			// A separate module is a user of this one like any other.
			if _, err := os.Stat(filepath.Join(file, "go.mod")); err == nil && file != root {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(name, ".go") {
			return nil
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
		if os.IsNotExist(err) {
			return nil // an editor's temporary file
		} else if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, file)
		if err != nil {
			return err
		}
		for _, spec := range parsed.Imports {
			imported, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				return err
			}
			folder := filepath.ToSlash(filepath.Dir(rel))
			if err := checkKind(folder, imported); err != nil {
				t.Errorf("%s: %v", rel, err)
			}
			if own, ok := strings.CutPrefix(imported, module+"/"); ok {
				seen++
				if err := checkImport(folder, own); err != nil {
					t.Errorf("%s: %v", rel, err)
				}
			}
			if folder == "framework/judge" || strings.HasPrefix(folder, "framework/judge/") {
				if err := checkJudge(name, imported); err != nil {
					t.Errorf("%s: %v", rel, err)
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if seen == 0 {
		t.Error("not one import of this module was seen: the test looks in the wrong place")
	}
}

// The check itself, with imports that must and must not pass.
func TestCheckImport(t *testing.T) {
	for _, test := range []struct {
		folder, imported string
		ok               bool
	}{
		{"cmd/holdfast", "clusters/local", true},
		{"suites", "clusters/local", true},
		{"suites/ha", "framework/engine", true},
		{"scenarios", "framework/engine", true},
		{"scenarios", "clusters", false},
		{"framework/engine", "framework/record", true},
		{"framework/engine", "clusters/local", false},
		{"framework", "scenarios", false},
		{"frameworks", "framework", false},
		{"clusters/local", "clusters/vnet", true},
		{"clusters/local", "framework/fault", true},
		{"clusters/local", "reports", false},
		{"framework/judge", "framework/judge/internal/judges", true},
		{"framework/judge", "framework/engine", false},
		{"framework/judge/internal/judges", "framework/judge/internal/facts", true},
		{"framework/judge/internal/judges", "framework/judge", false},
		{"framework/judge/internal/facts", "framework/judge/verdict", true},
		{"framework/judge/internal/facts", "framework/judge/internal/judges", false},
		{"framework/judge/verdict", "framework/judge/internal/facts", false},
		{"reports", "framework/record", true},
		{"reports", "framework/judge", true},
		{"reports", "framework", false},
		{"reports", "framework/engine", false},
		{"reports", "framework/recorder", false},
		{"internal/x", "framework", false},
	} {
		if err := checkImport(test.folder, test.imported); (err == nil) != test.ok {
			t.Errorf("%s imports %s: %v, want ok = %v", test.folder, test.imported, err, test.ok)
		}
	}
	for folder, ok := range map[string]bool{"clusters/kind": true, "clusters/kind/image": true, "clusters/local": false, "cmd/holdfast": false, "clusters/kinder": false} {
		if err := checkKind(folder, "sigs.k8s.io/kind/pkg/cluster"); (err == nil) != ok {
			t.Errorf("%s imports kind: %v, want ok = %v", folder, err, ok)
		}
	}
	for imported, ok := range map[string]bool{"time": true, "net/http": false, "os": false, "k8s.io/client-go/rest": false, "network": true} {
		if err := checkJudge("judge.go", imported); (err == nil) != ok {
			t.Errorf("a judge imports %s: %v, want ok = %v", imported, err, ok)
		}
	}
}
