package system

import (
	"os"
	"os/exec"
	"path/filepath"
)

// systemDirs are where distributions install programs that usually only root uses; the PATH of
// an ordinary user often does not have them.
var systemDirs = []string{"/usr/sbin", "/usr/local/sbin", "/sbin"}

// LookProgram returns the path of an installed program. It also searches systemDirs.
func LookProgram(name string) (string, error) {
	path, err := exec.LookPath(name)
	if err == nil {
		return path, nil
	}
	for _, dir := range systemDirs {
		if path, err := exec.LookPath(filepath.Join(dir, name)); err == nil {
			return path, nil
		}
	}
	return "", err
}

// UserShell returns the shell of the user.
func UserShell() string {
	if sh := os.Getenv("SHELL"); sh != "" {
		return sh
	}
	return "/bin/sh"
}
