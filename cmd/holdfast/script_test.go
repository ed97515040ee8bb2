package main

import (
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/rogpeppe/go-internal/goproxytest"
	"github.com/rogpeppe/go-internal/testscript"
)

func TestMain(m *testing.M) {
	reexec() // doctor starts a sandbox from this binary
	testscript.Main(m, map[string]func(){"holdfast": main})
}

// TestScript runs testdata/script. The scripts have no network: modules come from a proxy in this
// test, and release archives are unavailable.
func TestScript(t *testing.T) {
	passHangups()
	proxy := goproxytest.NewTestServer(t, filepath.Join("..", "..", "clusters", "release", "testdata", "mod"), "127.0.0.1:0")
	goCache, err := exec.Command("go", "env", "GOCACHE").Output()
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir: filepath.Join("testdata", "script"),
		Setup: func(env *testscript.Env) error {
			env.Vars = append(env.Vars,
				"HOME="+env.WorkDir,
				"XDG_CACHE_HOME="+filepath.Join(env.WorkDir, ".cache"),
				"XDG_RUNTIME_DIR="+filepath.Join(env.WorkDir, ".run"),
				"XDG_STATE_HOME="+filepath.Join(env.WorkDir, ".state"),
				"HOLDFAST_MIRROR=http://127.0.0.1:1",
				"GOPROXY="+proxy.URL, "GOSUMDB=off", "GOTOOLCHAIN=local",
				"GOMODCACHE="+filepath.Join(env.WorkDir, ".mod"), "GOFLAGS=-modcacherw",
				// Do not compile the standard library again.
				"GOCACHE="+strings.TrimSpace(string(goCache)),
				"NO_PROXY=127.0.0.1",
				// The directory of holdfast, for scripts without anything else on PATH.
				"BIN="+filepath.SplitList(env.Getenv("PATH"))[0],
			)
			return nil
		},
		RequireExplicitExec: true,
		Cmds:                map[string]func(*testscript.TestScript, bool, []string){"code": code, "conforms": conforms, "mkrecord": mkrecord},
	})
}

// passHangups lets commands receive SIGHUP even under nohup, which ignores it: they inherit the
// ignored signal unless this process catches it.
func passHangups() { signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP) }

// code runs a command and compares its exit code with one or several:
// code 2 holdfast fetch, code 0|3 holdfast doctor.
func code(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: code N command [args...]")
	}
	err := ts.Exec(args[1], args[2:]...)
	got := "0"
	if err != nil {
		got = strings.TrimPrefix(err.Error(), "exit status ")
	}
	if !slices.Contains(strings.Split(args[0], "|"), got) {
		ts.Fatalf("exit code %s, want %s", got, args[0])
	}
}
