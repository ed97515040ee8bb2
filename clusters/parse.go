package clusters

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"strings"

	"go.yaml.in/yaml/v3"
)

// maxFileSize prevents a file that is not a cluster file from filling the memory.
const maxFileSize = 1 << 20

// Load reads a cluster file; - means standard input. Errors contain file, line, and the allowed
// values.
func Load(path string) (*Cluster, error) {
	file, err := os.Stdin, error(nil)
	if path == "-" {
		path = "standard input"
	} else if file, err = os.Open(path); err != nil {
		return nil, fmt.Errorf("failed to read the cluster file: %w", err)
	} else {
		defer file.Close()
	}
	data, err := io.ReadAll(io.LimitReader(file, maxFileSize+1))
	if err != nil {
		return nil, fmt.Errorf("failed to read the cluster file: %w", err)
	}
	return Parse(path, data)
}

// Parse reads a cluster file from memory; errors call it name. Omitted fields have the values
// of Default. The returned cluster is valid.
func Parse(name string, data []byte) (*Cluster, error) {
	c := Default()
	d, err := parse(name, "a "+Kind+" of "+APIVersion, data, c, map[string][]string{"": {"apiVersion", "kind"}})
	if err != nil {
		return nil, err
	}
	c.Spec.KubernetesVersion, c.Spec.EtcdVersion = Version(c.Spec.KubernetesVersion), Version(c.Spec.EtcdVersion)
	for i := range c.Spec.Nodes {
		n := &c.Spec.Nodes[i]
		n.KubernetesVersion, n.EtcdVersion = Version(n.KubernetesVersion), Version(n.EtcdVersion)
	}
	if problems := c.problems(d.where); len(problems) > 0 {
		return nil, errors.Join(problems...)
	}
	return c, nil
}

// Decode reads a YAML file of another kind into a struct, as strictly as Parse. Errors call the
// file name, and want is what it should hold. The returned function gives the position of a field,
// as a prefix for further errors about it.
func Decode(name, want string, data []byte, into any) (position func(path string) string, err error) {
	d, err := parse(name, want, data, into, nil)
	if err != nil {
		return nil, err
	}
	return d.where, nil
}

// parse reads the single document of a file, which should hold what want says, into a struct.
// required are the fields that the mapping at a path must have.
func parse(name, want string, data []byte, into any, required map[string][]string) (*decoder, error) {
	if len(data) > maxFileSize {
		return nil, fmt.Errorf("%s is larger than %d bytes: want %s", name, maxFileSize, want)
	}
	documents := yaml.NewDecoder(bytes.NewReader(data))
	var document yaml.Node
	if err := documents.Decode(&document); errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%s is empty: want %s", name, want)
	} else if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	var second yaml.Node
	if err := documents.Decode(&second); !errors.Is(err, io.EOF) {
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		return nil, fmt.Errorf("%s:%d: a second document: a file holds one", name, second.Line)
	}
	d := &decoder{file: name, want: want, required: required, lines: map[string]int{}}
	if err := d.otherKind(document.Content[0]); err != nil {
		return nil, err
	}
	d.decode(document.Content[0], "", reflect.ValueOf(into).Elem())
	return d, errors.Join(d.problems...)
}

// takenBy are the commands that take holdfast's files, by kind.
var takenBy = map[string]string{
	Kind:          "holdfast up -f, or holdfast run --cluster",
	InventoryKind: "holdfast run --inventory",
	"Scenario":    "holdfast run -f",
}

// otherKind returns an error for a file of holdfast's of another kind than wanted.
func (d *decoder) otherKind(document *yaml.Node) error {
	var file struct {
		APIVersion string `yaml:"apiVersion"`
		Kind       string `yaml:"kind"`
	}
	if document.Decode(&file) != nil || file.APIVersion != APIVersion || takenBy[file.Kind] == "" || strings.Contains(d.want, file.Kind) {
		return nil
	}
	return fmt.Errorf("%s: kind is %s: want %s; a file of kind %[2]s is for %[4]s", d.file, file.Kind, d.want, takenBy[file.Kind])
}
