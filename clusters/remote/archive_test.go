package remote

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfast-ha/holdfast/clusters/agent"
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
