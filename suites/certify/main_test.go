package certify

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-ha/holdfast/clusters"
	"github.com/holdfast-ha/holdfast/clusters/local"
	"github.com/holdfast-ha/holdfast/reports/bundle"
	"github.com/holdfast-ha/holdfast/suites/run"
)

func TestMain(m *testing.M) {
	if slices.Equal(os.Args[1:], []string{replacing}) {
		replaceMyself()
	}
	clusters.Main(local.Provider{})
	program.Main()
	os.Exit(m.Run())
}

// replacing is the argument of a copy of this program that replaces its own file.
const replacing = "test-replacing"

func replaceMyself() {
	path, err := os.Executable()
	if err == nil {
		err = os.Remove(path)
	}
	if err == nil {
		err = os.WriteFile(path, []byte("another build"), 0o700)
	}
	tool, problem := ThisTool("v1")
	fmt.Println(tool.Digest, errors.Join(err, problem))
	os.Exit(0)
}

// TestThisTool: the digest in a bundle is that of the program that made it, also if its file was replaced
// in the meantime.
func TestThisTool(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "program")
	text, err := os.ReadFile(exe)
	if err == nil {
		err = os.WriteFile(path, text, 0o700)
	}
	if err != nil {
		t.Fatal(err)
	}
	digest, err := bundle.Digest(path)
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(path, replacing).CombinedOutput()
	if got := strings.TrimSpace(string(out)); err != nil || got != digest+" <nil>" {
		t.Errorf("%s, %v, want %s", got, err, digest)
	}
}

// program has the providers for the scenarios of these tests.
var program = run.Program{Providers: []clusters.Provider{local.Provider{}}}
