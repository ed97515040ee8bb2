package agent

import (
	"os"
	"path/filepath"
	"runtime/debug"
	"testing"
)

func TestSameSource(t *testing.T) {
	built := func(revision, modified, arch string) *debug.BuildInfo {
		b := &debug.BuildInfo{}
		for key, value := range map[string]string{"vcs.revision": revision, "vcs.modified": modified, "GOOS": "linux", "GOARCH": arch} {
			if value != "" {
				b.Settings = append(b.Settings, debug.BuildSetting{Key: key, Value: value})
			}
		}
		return b
	}
	own := built("a1", "false", "amd64")
	for name, test := range map[string]struct {
		a, b *debug.BuildInfo
		want bool
	}{
		"the same commit":           {own, built("a1", "false", "amd64"), true},
		"another commit":            {own, built("b2", "false", "amd64"), false},
		"another architecture":      {own, built("a1", "false", "arm64"), false},
		"with uncommitted changes":  {own, built("a1", "true", "amd64"), false},
		"both with such changes":    {built("a1", "true", "amd64"), built("a1", "true", "amd64"), false},
		"without a commit":          {built("", "", "amd64"), built("", "", "amd64"), false},
		"without build information": {nil, own, false},
	} {
		if got := sameSource(test.a, test.b); got != test.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

// Without an agent next to it, or named by the user, this program is copied.
func TestProgram(t *testing.T) {
	exe, err := os.Executable()
	must(t, err)
	if got, err := Program(); err != nil || got != exe {
		t.Errorf("%q, %v; want %q", got, err, exe)
	}
	file := filepath.Join(t.TempDir(), "agent")
	t.Setenv(ProgramEnv, file)
	if got, err := Program(); err == nil {
		t.Errorf("%q, which is not there", got)
	}
	must(t, os.WriteFile(file, nil, 0o755))
	if got, err := Program(); err != nil || got != file {
		t.Errorf("%q, %v; want %q", got, err, file)
	}
}
