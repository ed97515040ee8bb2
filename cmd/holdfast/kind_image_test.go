package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/holdfast-ha/holdfast/clusters/kind/image"
)

// registry is a docker command whose engine has no images and whose registry has all.
const registry = `#!/bin/sh
echo "$DOCKER_HOST $*" >>"$DOCKER_LOG"
case "$1 $2" in
"version "*) echo "20.10.24 $DOCKER_ARCH" ;;
"image inspect") echo "Error: No such image" >&2; exit 1 ;;
"pull "*) echo "tag: Pulling from somewhere" ;;
*) exit 1 ;;
esac
`

// kindImage runs the command with the stand-in for docker, and returns its output.
func kindImage(t *testing.T, engine func(context.Context) (string, error), args ...string) (stdout, stderr string, err error) {
	t.Helper()
	cmd := newKindImageCommand(engine)
	var out, progress bytes.Buffer
	cmd.SetArgs(args)
	cmd.SetOut(&out)
	cmd.SetErr(&progress)
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	err = cmd.ExecuteContext(t.Context())
	return out.String(), progress.String(), err
}

func TestKindImage(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "docker"), []byte(registry), 0o755); err != nil {
		t.Fatal(err)
	}
	log := filepath.Join(dir, "log")
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	t.Setenv("DOCKER_LOG", log)
	t.Setenv("DOCKER_ARCH", runtime.GOARCH)
	t.Setenv("XDG_CACHE_HOME", filepath.Join(dir, "cache"))
	engine := func(context.Context) (string, error) { return "unix:///found/docker.sock", nil }

	stdout, stderr, err := kindImage(t, engine, "--kubernetes", "1.36.3,v1.37.1", "--source", "published")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"node v1.36.3  docker.io/kindest/node:v1.36.3", "node v1.37.1  docker.io/kindest/node:v1.37.1", "balancer      " + image.BalancerName} {
		if !strings.Contains(stdout, want) {
			t.Errorf("it does not print %q:\n%s", want, stdout)
		}
	}
	if !strings.Contains(stderr, "pulled docker.io/kindest/node:v1.36.3") {
		t.Errorf("progress: %s", stderr)
	}
	if calls, err := os.ReadFile(log); err != nil || !strings.Contains(string(calls), "unix:///found/docker.sock pull") {
		t.Errorf("docker was called: %s, %v", calls, err)
	}

	stdout, _, err = kindImage(t, engine, "--kubernetes", "1.36.3", "--source", "published", "-o", "json")
	var images image.Images
	if err != nil || json.Unmarshal([]byte(stdout), &images) != nil || len(images.Nodes) != 1 || images.Nodes[0].Why == "" {
		t.Errorf("as JSON: %s, %v", stdout, err)
	}
}

func TestKindImageBadInput(t *testing.T) {
	none := func(context.Context) (string, error) { return "", errors.New("no engine was found") }
	for _, test := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"--source", "moon"}, exitUsage, `--source is "moon": it must be auto, published or build`},
		{[]string{"--kubernetes", "1.37"}, exitUsage, "kubernetes 1.37 is not a version such as"},
		{nil, exitInconclusive, "no engine was found"},
	} {
		_, _, err := kindImage(t, none, test.args...)
		if err == nil || exitCode(err) != test.code || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%q: %v (exit code %d), want %q", test.args, err, exitCode(err), test.want)
		}
	}
}
