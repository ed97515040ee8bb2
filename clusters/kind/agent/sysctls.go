package agent

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/holdfast-ha/holdfast/clusters/system"
)

const sysctls = "/proc/sys"

// setSysctls sets kernel settings of the node's network, also where the engine has mounted
// them so that they can only be read, as it does in the balancer's container.
func setSysctls(settings map[string]string) error {
	err := system.SetSysctls(settings)
	if !errors.Is(err, unix.EROFS) {
		return err
	}
	flags := uintptr(unix.MS_REMOUNT | unix.MS_BIND | unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC)
	if mount := unix.Mount("", sysctls, "", flags, ""); mount != nil {
		return fmt.Errorf("%w; making %s writable: %w", err, sysctls, mount)
	}
	return system.SetSysctls(settings)
}
