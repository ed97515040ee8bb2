package remote

import (
	"bytes"
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
