package agent

import (
	"fmt"
	"strings"

	"github.com/holdfast-ha/holdfast/framework"
)

// AskVersion returns the shell script that has the program of a running component print its
// version, by the component's name: one program may be several components.
func AskVersion(c framework.Component, pid int) string {
	return fmt.Sprintf(`d=$(mktemp -d) && ln -s /proc/%d/exe "$d/%s" && "$d/%[2]s" --version; status=$?
rm -rf "$d"; exit $status`, pid, c)
}

// ParseVersion returns the version that a component of Kubernetes prints, such as v1.37.1.
func ParseVersion(out string) (string, error) {
	fields := strings.Fields(out) // Kubernetes v1.37.1
	if len(fields) != 2 {
		return "", fmt.Errorf("%q is not a version of Kubernetes", out)
	}
	return fields[1], nil
}
