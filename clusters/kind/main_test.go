package kind

import (
	"os"
	"path/filepath"
	"testing"
)

func TestMain(m *testing.M) {
	Main()
	os.Exit(m.Run())
}

// fakeDocker puts a script into the place of docker. It finds its arguments in "$@",
// and files of the test in $DIR.
func fakeDocker(t *testing.T, script string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	bin := filepath.Join(dir, "bin")
	if err := os.Mkdir(bin, 0o755); err != nil {
		t.Fatal(err)
	}
	text := "#!/bin/sh\nDIR=" + dir + "\necho \"$@\" >> $DIR/calls\n" + script
	if err := os.WriteFile(filepath.Join(bin, "docker"), []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	return dir
}
