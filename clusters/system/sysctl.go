package system

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// SysctlFile returns the file of a kernel setting.
func SysctlFile(name string) string {
	return filepath.Join("/proc/sys", strings.ReplaceAll(name, ".", "/"))
}

// SetSysctls sets kernel settings of this process's network namespace. It skips settings that
// the kernel does not have: see MissingSysctls.
func SetSysctls(settings map[string]string) error {
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		f, err := os.OpenFile(SysctlFile(name), os.O_WRONLY, 0)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil {
			_, err = f.WriteString(settings[name])
			err = errors.Join(err, f.Close())
		}
		if err != nil {
			return fmt.Errorf("sysctl %s=%s: %w", name, settings[name], err)
		}
	}
	return nil
}

// MissingSysctls returns the settings that this machine's kernel does not have.
func MissingSysctls(settings map[string]string) (missing []string) {
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		if _, err := os.Stat(SysctlFile(name)); errors.Is(err, fs.ErrNotExist) {
			missing = append(missing, name)
		}
	}
	return missing
}
