package system

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
)

// ReadIDMap reads the IDs of a uid_map or gid_map, as mappings that give all of them to a child
// of this process's user namespace.
func ReadIDMap(path string) ([]syscall.SysProcIDMap, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("failed to read the identities that may be mapped: %w", err)
	}
	var maps []syscall.SysProcIDMap
	for line := range strings.Lines(string(b)) {
		var inside, outside, size int
		if _, err := fmt.Sscan(line, &inside, &outside, &size); err != nil {
			return nil, fmt.Errorf("%s: unexpected line %q: %w", path, line, err)
		}
		maps = append(maps, syscall.SysProcIDMap{ContainerID: inside, HostID: inside, Size: size})
	}
	return maps, nil
}

// ExplainNamespaces adds advice to an error of starting a process in new namespaces.
func ExplainNamespaces(err error) error {
	if errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.EACCES) {
		return fmt.Errorf("this machine does not let you make user namespaces (%w): "+
			"as root, set sysctl user.max_user_namespaces to 10000 or more, and where they exist "+
			"kernel.unprivileged_userns_clone=1 and kernel.apparmor_restrict_unprivileged_userns=0; "+
			"in a container, allow the unshare and mount system calls; `holdfast doctor` checks it", err)
	}
	return err
}
