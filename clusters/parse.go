package clusters

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"

	"go.yaml.in/yaml/v3"

	"github.com/holdfast-ha/holdfast/framework"
)

// maxFileSize keeps a file that is not a cluster file from filling the memory.
const maxFileSize = 1 << 20

// Load reads a cluster file; - stands for standard input. Errors name file and line, and what is allowed.
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

// Parse reads a cluster file from memory; name stands for it in errors. What
// the file leaves out is as in Default. The cluster it returns is valid.
func Parse(name string, data []byte) (*Cluster, error) {
	c := Default()
	d, err := parse(name, Kind, data, func(d *decoder, node *yaml.Node) { d.cluster(node, c) })
	if err != nil {
		return nil, err
	}
	if problems := c.problems(func(path string) string { return d.position(d.lines[path]) }); len(problems) > 0 {
		return nil, errors.Join(problems...)
	}
	return c, nil
}

// parse has the one document of a file read, which is to be of a kind.
func parse(name, kind string, data []byte, read func(*decoder, *yaml.Node)) (*decoder, error) {
	if len(data) > maxFileSize {
		return nil, fmt.Errorf("%s is larger than %d bytes: this is not a file of kind %s", name, maxFileSize, kind)
	}
	documents := yaml.NewDecoder(bytes.NewReader(data))
	var document yaml.Node
	if err := documents.Decode(&document); errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%s is empty: want a %s of %s", name, kind, APIVersion)
	} else if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	var second yaml.Node
	if err := documents.Decode(&second); !errors.Is(err, io.EOF) {
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		return nil, fmt.Errorf("%s:%d: a second document: one file describes one cluster", name, second.Line)
	}
	d := &decoder{file: name, lines: map[string]int{}}
	read(d, document.Content[0])
	return d, errors.Join(d.problems...)
}

func (d *decoder) cluster(node *yaml.Node, c *Cluster) {
	d.mapping(node, "", []field{
		{"apiVersion", d.text(&c.APIVersion)},
		{"kind", d.text(&c.Kind)},
		{"metadata", func(node *yaml.Node, path string) {
			d.mapping(node, path, []field{{"name", d.text(&c.Metadata.Name)}})
		}},
		{"spec", func(node *yaml.Node, path string) { d.spec(node, path, &c.Spec) }},
	}, "apiVersion", "kind")
}

func (d *decoder) spec(node *yaml.Node, path string, s *Spec) {
	d.mapping(node, path, []field{
		{"nodes", func(node *yaml.Node, path string) { d.nodes(node, path, s) }},
		{"kubernetesVersion", d.version(&s.KubernetesVersion)},
		{"etcdVersion", d.version(&s.EtcdVersion)},
		{"loadBalancer", func(node *yaml.Node, path string) {
			d.mapping(node, path, []field{
				{"kind", d.text((*string)(&s.LoadBalancer.Kind))},
				{"healthCheck", func(node *yaml.Node, path string) { d.healthCheck(node, path, &s.LoadBalancer.HealthCheck) }},
			})
		}},
		{"etcdBalancer", d.text((*string)(&s.EtcdBalancer))},
		{"workers", d.integer(&s.Workers)},
		{"registerNodes", d.boolean(&s.RegisterNodes)},
		{"extraArgs", func(node *yaml.Node, path string) { s.ExtraArgs = d.extraArgs(node, path) }},
		{"sysctls", func(node *yaml.Node, path string) { s.Sysctls = d.texts(node, path) }},
		{"election", func(node *yaml.Node, path string) {
			s.Election = map[framework.Component]Election{}
			d.entries(node, path, func(component, value *yaml.Node, path string) {
				how := ""
				d.text(&how)(value, path)
				s.Election[framework.Component(component.Value)] = Election(how)
			})
		}},
		{"data", d.text((*string)(&s.Data))},
		{"disk", d.text((*string)(&s.Disk))},
	})
}

func (d *decoder) healthCheck(node *yaml.Node, path string, h *HealthCheck) {
	d.mapping(node, path, []field{
		{"disabled", d.boolean(&h.Disabled)},
		{"interval", d.duration(&h.Interval)},
		{"timeout", d.duration(&h.Timeout)},
		{"fall", d.integer(&h.Fall)},
		{"rise", d.integer(&h.Rise)},
	})
}

// nodes is a number, or a list of what is special about each.
func (d *decoder) nodes(node *yaml.Node, path string, s *Spec) {
	switch node.Kind {
	case yaml.ScalarNode:
		var n int
		d.integer(&n)(node, path)
		// Other numbers are told by Validate; here they only must not hurt.
		s.Nodes = make([]NodeSpec, min(max(n, 0), MaxNodes+1))
	case yaml.SequenceNode:
		s.Nodes = make([]NodeSpec, len(node.Content))
		for i, item := range node.Content {
			spec := &s.Nodes[i]
			d.mapping(item, fmt.Sprintf("%s[%d]", path, i), []field{
				{"name", d.text(&spec.Name)},
				{"zone", d.text(&spec.Zone)},
				{"kubernetesVersion", d.version(&spec.KubernetesVersion)},
				{"etcdVersion", d.version(&spec.EtcdVersion)},
				{"extraArgs", func(node *yaml.Node, path string) { spec.ExtraArgs = d.extraArgs(node, path) }},
				{"disk", d.text((*string)(&spec.Disk))},
			})
		}
	default:
		d.problem(node, "%s is %s: want 1, 3, 5 or 7, or a list of nodes", path, describe(node))
	}
}

// extraArgs are flags by component. Values may be written as any scalar.
func (d *decoder) extraArgs(node *yaml.Node, path string) ExtraArgs {
	args := ExtraArgs{}
	d.entries(node, path, func(component, flags *yaml.Node, path string) {
		args[framework.Component(component.Value)] = d.texts(flags, path)
	})
	return args
}

// texts are scalars by name.
func (d *decoder) texts(node *yaml.Node, path string) map[string]string {
	values := map[string]string{}
	d.entries(node, path, func(name, value *yaml.Node, path string) {
		text := ""
		d.text(&text)(value, path)
		values[name.Value] = text
	})
	return values
}
