package agent

import (
	"archive/tar"
	"io"
	"maps"
	"os"
	"path"
	"slices"
)

// AddProgram adds this program to an archive of a node's files, as the agent's binary.
func AddProgram(t *tar.Writer) error {
	exe, err := os.Executable()
	if err != nil {
		return err
	}
	program, err := os.Open(exe)
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

// AddFiles adds files by path, with their directories, parents first.
func AddFiles(t *tar.Writer, files map[string][]byte) error {
	for _, name := range slices.Sorted(maps.Keys(files)) {
		b := files[name]
		err := t.WriteHeader(&tar.Header{Name: path.Dir(name)[1:] + "/", Typeflag: tar.TypeDir, Mode: 0o755})
		if err == nil {
			err = t.WriteHeader(&tar.Header{Name: name[1:], Mode: 0o644, Size: int64(len(b))})
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
