package engine

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestProblems(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	groups := file("groups", "31 23 0:28 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n")
	noGroups := file("noGroups", "31 23 0:28 / /sys rw - sysfs sysfs rw\n")
	some, none := file("some", "10000\n"), file("none", "0\n")
	limit := Limit{Sysctl: "some.limit", Wanted: 1024, file: file("limit", "128\n")}
	for _, test := range []struct {
		name            string
		without         []string
		uid             int
		mounts, max     string
		missing, advice string // missing: of what blocks
	}{
		{"all there", nil, 0, groups, some, "", ""},
		{"a bare machine", []string{"docker", "dockerd", "containerd", "containerd-shim-runc-v2", "runc", "iptables", "debootstrap"}, 0, groups, some,
			"docker, dockerd, containerd, containerd-shim-runc-v2, runc, iptables", "apt-get install --no-install-recommends docker.io containerd runc iptables debootstrap"},
		{"no debootstrap", []string{"debootstrap"}, 0, groups, some, "", "install --no-install-recommends debootstrap"},
		{"an ordinary user", nil, 1000, groups, some, "root privileges", "run holdfast as root"},
		{"an ordinary user, and few instances", nil, 1000, groups, some, "root privileges", "sysctl -w some.limit=1024"},
		{"no user namespaces", nil, 0, groups, none, "user namespaces", "sysctl -w user.max_user_namespaces"},
		{"no control groups", []string{"dockerd"}, 0, noGroups, some, "dockerd, control groups", "apt-get install cgroupfs-mount"},
	} {
		m := machine{uid: test.uid, mounts: test.mounts, maxUserNamespaces: test.max, inotify: limit, look: func(name string) (string, error) {
			if slices.Contains(test.without, name) {
				return "", errors.New("not found")
			}
			return "/usr/bin/" + name, nil
		}}
		problems := m.problems()
		if got := Missing(Blocking(problems)); got != test.missing {
			t.Errorf("%s: what blocks is %q, want %q", test.name, got, test.missing)
		}
		if got := Advice(problems); !strings.Contains(got, test.advice) || (test.advice == "" && got != "") {
			t.Errorf("%s: the advice is %q, want %q", test.name, got, test.advice)
		}
		if packages := strings.Join(Packages(problems), " "); (packages != "") != (len(test.without) > 0) || strings.Contains(packages, mountsGroups) {
			t.Errorf("%s: packages %q", test.name, packages)
		}
	}
}

func TestStartWithoutWhatItNeeds(t *testing.T) {
	newLab(t)
	t.Setenv("PATH", t.TempDir())
	_, err := Start(t.Context(), Config{})
	if err == nil {
		t.Skip("all is installed where PATH does not count")
	}
	if !strings.Contains(err.Error(), "apt-get install") && !strings.Contains(err.Error(), "as root") {
		t.Errorf("the error does not say what to do: %v", err)
	}
	if _, err := os.Stat(newPlace().dir); err == nil {
		t.Error("a directory was made")
	}
}
