// Package readiness says which nodes of a cluster are not ready, and why. It is not part of await, since
// that is built into the node agent, which the types of k8s.io/api would make a fifth larger.
//
// Its tests have no requirements: go test ./clusters/internal/readiness
package readiness

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Listed returns which of these nodes in a list of the API are not ready, and why; if names is nil, of
// all in the list.
func Listed(body []byte, names []string) error {
	var list corev1.NodeList
	if err := json.Unmarshal(body, &list); err != nil {
		return fmt.Errorf("failed to read the list of nodes: %w", err)
	}
	there := map[string]corev1.Node{}
	for _, n := range list.Items {
		there[n.Name] = n
	}
	if names == nil {
		names = slices.Sorted(maps.Keys(there))
	}
	return Of(there, names)
}

// Of returns which of these nodes are not ready, and why; nil if all are.
func Of(there map[string]corev1.Node, names []string) error {
	var problems []error
	for _, name := range names {
		node, ok := there[name]
		if !ok {
			problems = append(problems, fmt.Errorf("node %s has not registered: its kubelet's log is journalctl -u kubelet on it", name))
			continue
		}
		if why := notReady(node); why != "" {
			problems = append(problems, fmt.Errorf("node %s is not ready: %s", name, why))
		}
	}
	return errors.Join(problems...)
}

// notReady returns why a node is not ready; empty if it is.
func notReady(n corev1.Node) string {
	for _, condition := range n.Status.Conditions {
		if condition.Type != corev1.NodeReady {
			continue
		}
		if condition.Status == corev1.ConditionTrue {
			return ""
		}
		return strings.TrimSpace(condition.Reason + ": " + condition.Message)
	}
	return "its kubelet has reported nothing yet"
}
