package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/holdfast-ha/holdfast/clusters/release"
)

// For an ordinary user doctor prints each check with its own texts, in a table that fits a
// terminal.
func TestDoctorAsOrdinaryUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can become another user")
	}
	const user = 65534
	dir, err := os.MkdirTemp("/var/tmp", "doctor")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(exe)
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(dir, "holdfast")
	if err := os.WriteFile(program, text, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, "doctor", "-o", "json")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "HOME="+dir, "XDG_CACHE_HOME="+dir, "XDG_RUNTIME_DIR=")
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: user, Gid: user}}
	text, err = cmd.Output()
	if code := cmd.ProcessState.ExitCode(); code != exitPass && code != exitInconclusive {
		t.Fatalf("%v: %s", err, text)
	}
	if err := followsSchema("doctor", string(text)); err != nil {
		t.Error(err)
	}
	var d diagnosis
	if err := json.Unmarshal(text, &d); err != nil {
		t.Fatal(err)
	}
	words := map[string]string{"CPU quotas": "cpu-pressure", "memory limits": "memory-pressure"}
	for _, c := range d.Checks {
		if len(c.Name) > 20 {
			t.Errorf("the name of a check takes %d columns: %s", len(c.Name), c.Name)
		}
		if c.Name == "namespaces" && c.State == stateOK && !strings.Contains(c.Found, "ordinary user 65534") {
			t.Errorf("%+v", c)
		}
		for name, word := range words {
			if own := c.Name == name; own != strings.Contains(c.Advice, word) && !(own && c.Advice == "") {
				t.Errorf("%q in %+v", word, c)
			}
		}
	}
}

func TestCheckHugePages(t *testing.T) {
	for text, want := range map[string]check{
		"[always] madvise never\n": {State: stateOK, Found: "always"},
		"always [madvise] never\n": {State: stateFallback, Found: "madvise"},
		"always madvise [never]\n": {State: stateFallback, Found: "never"},
		"":                         {State: stateFallback, Found: "not supported by this kernel"},
	} {
		file := filepath.Join(t.TempDir(), "enabled")
		if text != "" {
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if got := checkHugePages(file); got.State != want.State || got.Found != want.Found || got.Required {
			t.Errorf("%q: %+v", text, got)
		}
	}
}

// A cache without kwok lacks what a default cluster runs.
func TestMissingDefaults(t *testing.T) {
	kubernetes := release.Entry{Product: release.Kubernetes, Version: release.DefaultKubernetes, Arch: runtime.GOARCH}
	kwok := release.Entry{Product: release.Kwok, Version: release.DefaultKwok, Arch: runtime.GOARCH}
	other := release.Entry{Product: release.Kwok, Version: release.DefaultKwok, Arch: "other"}
	for _, tc := range []struct {
		name    string
		entries []release.Entry
		want    []release.Product
	}{
		{"empty", nil, []release.Product{release.Kubernetes, release.Kwok}},
		{"kwok for another architecture", []release.Entry{kubernetes, other}, []release.Product{release.Kwok}},
		{"complete", []release.Entry{kwok, kubernetes}, nil},
	} {
		if missing := missingDefaults(tc.entries); !slices.Equal(missing, tc.want) {
			t.Errorf("%s: missing %q, want %q", tc.name, missing, tc.want)
		}
	}
	t.Setenv("PATH", t.TempDir())
	if _, err := release.FindGo(); err == nil {
		t.Skip("Go is found without PATH")
	}
	for _, tc := range []struct {
		missing []release.Product
		advice  string
	}{
		{nil, "what is in the cache is used"},
		{[]release.Product{release.Kubernetes}, "can only come from release archives"},
		{[]release.Product{release.Kwok}, "can only be built: install Go"},
	} {
		if c := checkGo(t.Context(), tc.missing); !strings.Contains(c.Advice, tc.advice) {
			t.Errorf("without Go and %q: %+v", tc.missing, c)
		}
	}
}
