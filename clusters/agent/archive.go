package agent

import (
	"archive/tar"
	"debug/buildinfo"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"path/filepath"
	"runtime/debug"
	"slices"
)

// ProgramEnv names the environment variable with the path of the program to copy to nodes, for
// instance one that was built for their architecture.
const ProgramEnv = "HOLDFAST_AGENT"

// programName is the name of the agent's own program, cmd/holdfast-agent.
const programName = "holdfast-agent"

// Program returns the path of the program to copy to nodes: what ProgramEnv names, else
// holdfast-agent in the directory of this program, if both were built from the same commit. Else it
// is this program, which is five times as large.
func Program() (string, error) {
	if file := os.Getenv(ProgramEnv); file != "" {
		if _, err := os.Stat(file); err != nil {
			return "", fmt.Errorf("the node agent that %s names: %w", ProgramEnv, err)
		}
		return file, nil
	}
	exe, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("failed to find this program's own file: %w", err)
	}
	own, _ := debug.ReadBuildInfo()
	small := filepath.Join(filepath.Dir(exe), programName)
	if there, err := buildinfo.ReadFile(small); err == nil && sameSource(own, there) {
		return small, nil
	}
	return exe, nil
}

// sameSource reports whether two programs are known to be built from the same source, for the same
// machines: not if their source had uncommitted changes.
func sameSource(a, b *debug.BuildInfo) bool {
	settings := func(b *debug.BuildInfo) map[string]string {
		all := map[string]string{}
		if b != nil {
			for _, s := range b.Settings {
				all[s.Key] = s.Value
			}
		}
		return all
	}
	one, other := settings(a), settings(b)
	for _, key := range []string{"vcs.revision", "vcs.modified", "GOOS", "GOARCH"} {
		if one[key] == "" || one[key] != other[key] {
			return false
		}
	}
	return one["vcs.modified"] == "false"
}

// AddProgram adds Program to an archive of a node's files, as the agent's binary.
func AddProgram(t *tar.Writer) error {
	file, err := Program()
	if err != nil {
		return err
	}
	program, err := os.Open(file)
	if err != nil {
		return err
	}
	defer program.Close()
	info, err := program.Stat()
	if err != nil {
		return err
	}
	if err := t.WriteHeader(&tar.Header{Name: BinaryPath[1:], Mode: 0o755, Size: info.Size()}); err != nil {
		return err
	}
	_, err = io.Copy(t, program)
	return err
}

// AddFiles adds files of a mode by path, with their directories, parents first. That of systemd's units
// is the node's own: tar would change its mode, or put a directory in the place of a link to one.
func AddFiles(t *tar.Writer, files map[string][]byte, mode int64) error {
	for _, name := range slices.Sorted(maps.Keys(files)) {
		b := files[name]
		var err error
		if path.Dir(name) != path.Dir(UnitPath) {
			err = t.WriteHeader(&tar.Header{Name: path.Dir(name)[1:] + "/", Typeflag: tar.TypeDir, Mode: 0o755})
		}
		if err == nil {
			err = t.WriteHeader(&tar.Header{Name: name[1:], Mode: mode, Size: int64(len(b))})
		}
		if err == nil {
			_, err = t.Write(b)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
