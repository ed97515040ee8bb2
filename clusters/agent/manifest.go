package agent

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/holdfast-ha/holdfast/clusters/system"
)

// manifest is the path of a static pod's file.
type manifest string

func (m manifest) path() string { return string(m) }

// asideDir holds the manifests that were taken away. It is next to the kubelet's directory: in
// the same file system, so that they can be renamed, but not watched by the kubelet.
const asideDir = "holdfast-aside"

func (m manifest) aside() manifest {
	dir := filepath.Dir(filepath.Dir(m.path()))
	return manifest(filepath.Join(dir, asideDir, filepath.Base(m.path())))
}

// takeAway makes the kubelet end and forget the pod.
func (m manifest) takeAway() error {
	err := os.MkdirAll(filepath.Dir(m.aside().path()), 0o700)
	if err == nil {
		err = os.Rename(m.path(), m.aside().path())
	}
	if err != nil {
		return fmt.Errorf("failed to move the manifest aside: %w", err)
	}
	return nil
}

// putBack undoes takeAway; it does nothing if the manifest is in place.
func (m manifest) putBack() error {
	err := os.Rename(m.aside().path(), m.path())
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("failed to put the manifest back: %w", err)
	}
	_ = os.Remove(filepath.Dir(m.aside().path())) // unless another manifest is there
	return nil
}

// manifestsFile lists the directories of the static pods that an agent works on, one a line. A
// shell finds there what was taken away, also if the agent's state is lost.
func manifestsFile(dir string) string { return filepath.Join(dir, "manifests") }

// listManifests writes manifestsFile. It keeps the directories of an earlier agent with another
// configuration.
func listManifests(c Config) error {
	file := manifestsFile(c.Dir)
	b, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("failed to list the directories of static pods: %w", err)
	}
	all := string(b)
	for _, one := range c.Components {
		line := filepath.Dir(one.Manifest) + "\n"
		if one.Manifest != "" && !strings.Contains("\n"+all, "\n"+line) {
			all += line
		}
	}
	if all == string(b) {
		return nil
	}
	if err := system.ReplaceFile(file, []byte(all), 0o600, true); err != nil {
		return fmt.Errorf("failed to list the directories of static pods: %w", err)
	}
	return nil
}

// change is a change to a pod.
type change func(pod map[string]any) error

// edit changes the manifest.
func (m manifest) edit(do change) error {
	pod, err := m.read()
	if err != nil {
		return err
	}
	if err := do(pod); err != nil {
		return fmt.Errorf("failed to change the manifest %s: %w", m, err)
	}
	b, err := yaml.Marshal(pod)
	if err != nil {
		return fmt.Errorf("failed to write the manifest %s: %w", m, err)
	}
	if err := replaceContent(m.path(), b); err != nil {
		return fmt.Errorf("failed to write the manifest %s: %w", m, err)
	}
	return nil
}

func (m manifest) read() (pod map[string]any, err error) {
	b, err := os.ReadFile(m.path())
	if err != nil {
		return nil, err
	}
	if err := yaml.Unmarshal(b, &pod); err != nil {
		return nil, fmt.Errorf("the manifest %s is not YAML: %w", m, err)
	}
	return pod, nil
}

// renewed is an annotation that only serves to change.
const renewed = "holdfast/renewed"

// renew turns the pod into a new one for the kubelet, which derives a static pod's UID from its
// manifest. The back-off is per UID, so earlier failures do not delay the next start.
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
	pod, err := m.read()
	if err != nil {
		return nil, err
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

// commandOf returns the command of a pod's first container, and a function to set it.
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
