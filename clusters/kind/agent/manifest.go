package agent

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// manifest is the path of a static pod's file.
type manifest string

func (m manifest) path() string { return string(m) }

// aside is where the file is while its pod is held down: in the same file system,
// so that it can be renamed, and out of the kubelet's sight.
func (m manifest) aside() string {
	dir := filepath.Dir(filepath.Dir(m.path()))
	return filepath.Join(dir, "holdfast-held", filepath.Base(m.path()))
}

// change is one to a pod.
type change func(pod map[string]any) error

// edit changes the manifest where it is, in its place or aside.
func (m manifest) edit(changes ...change) error {
	at := m.aside()
	b, err := os.ReadFile(at)
	if errors.Is(err, os.ErrNotExist) {
		at = m.path()
		b, err = os.ReadFile(at)
	}
	if err != nil {
		return err
	}
	return m.write(at, b, changes)
}

func (m manifest) write(at string, b []byte, changes []change) error {
	var pod map[string]any
	if err := yaml.Unmarshal(b, &pod); err != nil {
		return fmt.Errorf("the manifest %s is no YAML: %w", at, err)
	}
	for _, c := range changes {
		if err := c(pod); err != nil {
			return fmt.Errorf("changing the manifest %s: %w", at, err)
		}
	}
	b, err := yaml.Marshal(pod)
	if err != nil {
		return fmt.Errorf("writing the manifest %s: %w", at, err)
	}
	return replaceFile(at, b, 0o600, true)
}

// renewed is an annotation whose only meaning is that it changes.
const renewed = "holdfast/renewed"

// renew makes the pod another one to the kubelet, which derives a static pod's UID
// from what its manifest says. Its back-off is by UID, so the next start is not
// delayed by those that failed.
func renew(pod map[string]any) error {
	meta, ok := pod["metadata"].(map[string]any)
	if !ok {
		return errors.New("it has no metadata")
	}
	notes, ok := meta["annotations"].(map[string]any)
	if !ok {
		notes = map[string]any{}
		meta["annotations"] = notes
	}
	notes[renewed] = time.Now().UTC().Format(time.RFC3339Nano)
	return nil
}

// setArguments sets arguments (--name=value) of the pod's first container.
func setArguments(values map[string]string) change {
	return func(pod map[string]any) error {
		command, set, err := commandOf(pod)
		if err != nil {
			return err
		}
		var kept []any
		for _, a := range command {
			name, _, _ := strings.Cut(strings.TrimPrefix(fmt.Sprint(a), "--"), "=")
			if _, replaced := values[name]; !replaced {
				kept = append(kept, a)
			}
		}
		for name, value := range values {
			kept = append(kept, "--"+name+"="+value)
		}
		set(kept)
		return nil
	}
}

// arguments returns the arguments (--name=value) of the pod's first container.
func (m manifest) arguments() (map[string]string, error) {
	b, err := os.ReadFile(m.aside())
	if errors.Is(err, os.ErrNotExist) {
		b, err = os.ReadFile(m.path())
	}
	if err != nil {
		return nil, err
	}
	var pod map[string]any
	if err := yaml.Unmarshal(b, &pod); err != nil {
		return nil, fmt.Errorf("the manifest %s is no YAML: %w", m, err)
	}
	command, _, err := commandOf(pod)
	if err != nil {
		return nil, fmt.Errorf("the manifest %s: %w", m, err)
	}
	values := map[string]string{}
	for _, a := range command {
		if name, value, ok := strings.Cut(strings.TrimPrefix(fmt.Sprint(a), "--"), "="); ok {
			values[name] = value
		}
	}
	return values, nil
}

// commandOf returns the command of a pod's first container, and how to set it.
func commandOf(pod map[string]any) (command []any, set func([]any), err error) {
	spec, _ := pod["spec"].(map[string]any)
	containers, _ := spec["containers"].([]any)
	if len(containers) > 0 {
		first, _ := containers[0].(map[string]any)
		if command, ok := first["command"].([]any); ok {
			return command, func(c []any) { first["command"] = c }, nil
		}
	}
	return nil, nil, errors.New("its first container has no command")
}
