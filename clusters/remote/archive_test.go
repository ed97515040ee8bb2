package remote

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfast-ha/holdfast/clusters"
	"github.com/holdfast-ha/holdfast/clusters/agent"
	"github.com/holdfast-ha/holdfast/clusters/agenthttp"
)

// TestUnpack has a node's own tar unpack what is copied there, with the program and without. The
// program, which is this test's, travels compressed.
func TestUnpack(t *testing.T) {
	program, err := packProgram()
	if err != nil {
		t.Fatal(err)
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	own, err := os.ReadFile(exe)
	if err != nil {
		t.Fatal(err)
	}
	if len(program) > len(own)*2/3 {
		t.Errorf("%d bytes are copied of a program of %d", len(program), len(own))
	}
	files, err := packFiles(map[string][]byte{agent.ConfigPath: []byte("{}"), agent.GuardPath: []byte("#!/bin/sh\n")})
	if err != nil {
		t.Fatal(err)
	}
	for name, archive := range map[string][]byte{"with the program": append(program, files...), "without it": files} {
		node := t.TempDir()
		tar := exec.Command("sh", "-c", strings.TrimSuffix(unpack, "/")+node)
		tar.Stdin = bytes.NewReader(archive)
		if out, err := tar.CombinedOutput(); err != nil {
			t.Fatalf("%s: %s: %v", name, out, err)
		}
		for path, want := range map[string]string{agent.ConfigPath: "{}", agent.GuardPath: "#!/bin/sh\n"} {
			if b, err := os.ReadFile(filepath.Join(node, path)); err != nil || string(b) != want {
				t.Errorf("%s: %s has %q, %v", name, path, b, err)
			}
		}
		b, err := os.ReadFile(filepath.Join(node, agent.BinaryPath))
		info, _ := os.Stat(filepath.Join(node, agent.BinaryPath))
		switch {
		case name == "without it" && !os.IsNotExist(err):
			t.Errorf("%s: %v", name, err)
		case name == "with the program" && (err != nil || !bytes.Equal(b, own) || info.Mode().Perm() != 0o755):
			t.Errorf("%s: the program has %d bytes, want %d: %v", name, len(b), len(own), err)
		}
	}
}

// TestUnpackInPart: if this process is killed while it copies an agent, nothing of it stays on a node that
// has no other one.
func TestUnpackInPart(t *testing.T) {
	program, err := packProgram()
	if err != nil {
		t.Fatal(err)
	}
	files, err := packFiles(map[string][]byte{agent.ConfigPath: []byte("{}"), agent.GuardPath: []byte("#!/bin/sh\n"), agent.UnitPath: []byte("[Unit]\n")})
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name     string
		archive  []byte
		used     bool // an agent has run on the node
		installs bool
	}{
		{"no part", nil, false, false},
		{"a part of the program", program[:len(program)/2], false, false},
		{"a part of the files", append(program, files[:len(files)-1]...), false, false},
		{"all", append(program, files...), false, true},
		{"a part, beside another agent's state", append(program, files[:len(files)-1]...), true, false},
	} {
		node := t.TempDir()
		var own []string // pairs for a replacer
		for _, path := range []string{agent.BinaryPath, filepath.Dir(agent.ConfigPath), filepath.Dir(agent.UnitPath), "/var/lib/holdfast"} {
			own = append(own, path, filepath.Join(node, path))
			if err := os.MkdirAll(filepath.Dir(filepath.Join(node, path)), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.MkdirAll(filepath.Join(node, filepath.Dir(agent.UnitPath)), 0o755); err != nil {
			t.Fatal(err)
		}
		if tc.used {
			if err := errors.Join(os.Mkdir(filepath.Join(node, "/var/lib/holdfast"), 0o700), os.WriteFile(filepath.Join(node, "/var/lib/holdfast/state.json"), nil, 0o600)); err != nil {
				t.Fatal(err)
			}
		}
		script := orNothing("rm -f "+agent.BinaryPath+" && "+unpack) + "echo installed"
		run := exec.Command("sh", "-c", strings.NewReplacer(append(own, unpack, strings.TrimSuffix(unpack, "/")+node)...).Replace(script))
		run.Stdin = bytes.NewReader(tc.archive)
		out, err := run.Output()
		if installed := string(out) == "installed\n"; installed != tc.installs || (err == nil) != tc.installs {
			t.Errorf("%s: %q, error %v", tc.name, out, err)
		}
		for _, path := range []string{agent.BinaryPath, agent.ConfigPath, agent.GuardPath, agent.UnitPath} {
			if _, err := os.Stat(filepath.Join(node, path)); !tc.used && (err == nil) != tc.installs {
				t.Errorf("%s: %s: %v", tc.name, path, err)
			}
		}
	}
}

// TestUnlessUsed: of two runs that begin at the same time, the second one leaves the agent of the first
// alone.
func TestUnlessUsed(t *testing.T) {
	dir := t.TempDir()
	script := strings.ReplaceAll(installing("cat >"+filepath.Join(dir, "agent"), "echo started"), "/run/holdfast", dir)
	text, err := os.ReadFile("/proc/uptime")
	if err != nil {
		t.Fatal(err)
	}
	var up float64
	if _, err := fmt.Sscan(string(text), &up); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		ago    int
		run    string
		starts bool
	}{
		{-1, "", true},
		{1, "", false},
		{1, "process 1 on laptop", false},
		{1, agenthttp.Run(), true},
		{100, "process 1 on laptop", true},
	} {
		if tc.ago >= 0 {
			if err := os.WriteFile(filepath.Join(dir, "alive"), fmt.Appendln(nil, int(up), int(up)-tc.ago, 0, tc.run), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		installed := fmt.Sprint("of ", tc)
		install := exec.Command("sh", "-c", script)
		install.Stdin = strings.NewReader(installed)
		out, err := install.Output()
		if there, _ := os.ReadFile(filepath.Join(dir, "agent")); (string(there) == installed) != tc.starts {
			t.Errorf("last used %d s ago by %q: the agent is %q", tc.ago, tc.run, there)
		}
		used := shell{node: "node-1"}.used(string(out))
		if err != nil || (string(out) == "started\n") != tc.starts || errors.Is(used, clusters.ErrUnsafe) == tc.starts || used != nil && !strings.Contains(used.Error(), tc.run) {
			t.Errorf("last used %d s ago by %q: %q, %v; error %v", tc.ago, tc.run, out, used, err)
		}
		_ = os.Remove(filepath.Join(dir, "alive"))
	}
}

// TestUnpackUnits: the directory of systemd's units stays as it is, and may be a link to another one.
func TestUnpackUnits(t *testing.T) {
	files, err := packFiles(map[string][]byte{agent.UnitPath: []byte("[Unit]\n")})
	if err != nil {
		t.Fatal(err)
	}
	for _, linked := range []bool{false, true} {
		node := t.TempDir()
		units := filepath.Join(node, filepath.Dir(agent.UnitPath))
		own := units
		if linked {
			own = filepath.Join(node, "units")
		}
		if err := errors.Join(os.MkdirAll(filepath.Dir(units), 0o755), os.Mkdir(own, 0o700)); err != nil {
			t.Fatal(err)
		}
		if linked {
			if err := os.Symlink(own, units); err != nil {
				t.Fatal(err)
			}
		}
		tar := exec.Command("sh", "-c", strings.TrimSuffix(unpack, "/")+node)
		tar.Stdin = bytes.NewReader(files)
		if out, err := tar.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v", out, err)
		}
		info, err := os.Lstat(own)
		if err != nil || info.Mode().Perm() != 0o700 {
			t.Errorf("linked: %t: the directory has mode %s, %v", linked, info.Mode(), err)
		}
		if b, err := os.ReadFile(filepath.Join(own, agent.UnitName)); err != nil || string(b) != "[Unit]\n" {
			t.Errorf("linked: %t: the unit has %q, %v", linked, b, err)
		}
	}
}
