package local

import (
	"os"
	"path/filepath"
	"testing"
)

func TestLastWords(t *testing.T) {
	dir := t.TempDir()
	for name, tt := range map[string]struct{ log, want string }{
		"cobra":  {"I1124 starting\nError: unknown flag: --no-such-flag\n", "unknown flag: --no-such-flag"},
		"usage":  {"flag provided but not defined: -no-such-flag\nUsage:\n  etcd [flags]\n  --name 'default'\n    Human-readable name.\n", "flag provided but not defined: -no-such-flag"},
		"silent": {"\n", "nothing in its log"},
		"other":  {"line one\nline two\n", "line two"},
	} {
		log := filepath.Join(dir, name)
		if err := os.WriteFile(log, []byte(tt.log), 0o644); err != nil {
			t.Fatal(err)
		}
		if got := lastWords(log); got != tt.want {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
	if got := lastWords(filepath.Join(dir, "none")); got != "no log" {
		t.Errorf("without a log: %q", got)
	}
}
