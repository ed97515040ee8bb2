package clusters

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// decoder walks a YAML document and gathers all that is wrong with it, each
// with its line. lines remembers where each field was.
type decoder struct {
	file     string
	lines    map[string]int
	problems []error
}

// field is a name that a mapping may have, and how its value is read.
type field struct {
	name string
	read func(node *yaml.Node, path string)
}

func (d *decoder) position(line int) string {
	if line == 0 {
		return d.file + ": "
	}
	return fmt.Sprintf("%s:%d: ", d.file, line)
}

func (d *decoder) problem(node *yaml.Node, format string, args ...any) {
	d.problems = append(d.problems, fmt.Errorf("%s%s", d.position(node.Line), fmt.Sprintf(format, args...)))
}

// mapping reads a mapping that has these fields and no others.
func (d *decoder) mapping(node *yaml.Node, path string, fields []field, required ...string) {
	seen := map[string]bool{}
	if node.Kind != yaml.MappingNode {
		required = nil // the problem is a larger one
	}
	d.entries(node, path, func(key, value *yaml.Node, path string) {
		seen[key.Value] = true
		i := slices.IndexFunc(fields, func(f field) bool { return f.name == key.Value })
		if i < 0 {
			names := make([]string, len(fields))
			for i, f := range fields {
				names[i] = f.name
			}
			d.problem(key, "unknown field %s: allowed are %s", path, strings.Join(names, ", "))
			return
		}
		if value.ShortTag() == "!!null" {
			// A field without a value is as good as none.
			return
		}
		fields[i].read(value, path)
	})
	for _, name := range required {
		if !seen[name] {
			d.problem(node, "%s is missing", join(path, name))
		}
	}
}

// entries reads a mapping with any keys.
func (d *decoder) entries(node *yaml.Node, path string, entry func(key, value *yaml.Node, path string)) {
	if node.Kind != yaml.MappingNode {
		if path == "" {
			path = "the file"
		}
		d.problem(node, "%s is %s: want a mapping", path, describe(node))
		return
	}
	seen := map[string]int{}
	for i := 0; i+1 < len(node.Content); i += 2 {
		key, value := node.Content[i], node.Content[i+1]
		if key.Kind != yaml.ScalarNode {
			d.problem(key, "%s has a key that is %s: want a name", path, describe(key))
			continue
		}
		full := join(path, key.Value)
		if first, ok := seen[key.Value]; ok {
			d.problem(key, "%s is given twice: the first is on line %d", full, first)
			continue
		}
		seen[key.Value] = key.Line
		d.lines[full] = key.Line
		entry(key, value, full)
	}
}

// text reads any scalar as it is written.
func (d *decoder) text(into *string) func(*yaml.Node, string) {
	return func(node *yaml.Node, path string) {
		switch {
		case node.Kind != yaml.ScalarNode:
			d.problem(node, "%s is %s: want a text", path, describe(node))
		case node.ShortTag() == "!!null":
			*into = ""
		default:
			*into = node.Value
		}
	}
}

// version reads a version and puts a v before it.
func (d *decoder) version(into *string) func(*yaml.Node, string) {
	return func(node *yaml.Node, path string) {
		d.text(into)(node, path)
		*into = Version(*into)
	}
}

func (d *decoder) integer(into *int) func(*yaml.Node, string) {
	return func(node *yaml.Node, path string) {
		n, err := strconv.ParseInt(node.Value, 10, 32)
		if node.Kind != yaml.ScalarNode || err != nil {
			d.problem(node, "%s is %s: want a whole number", path, describe(node))
			return
		}
		*into = int(n)
	}
}

func (d *decoder) boolean(into *bool) func(*yaml.Node, string) {
	return func(node *yaml.Node, path string) {
		if node.Kind != yaml.ScalarNode || node.Value != "true" && node.Value != "false" {
			d.problem(node, "%s is %s: want true or false", path, describe(node))
			return
		}
		*into = node.Value == "true"
	}
}

func (d *decoder) duration(into *time.Duration) func(*yaml.Node, string) {
	return func(node *yaml.Node, path string) {
		value, err := time.ParseDuration(node.Value)
		if node.Kind != yaml.ScalarNode || err != nil {
			d.problem(node, "%s is %s: want a duration such as 500ms or 2s", path, describe(node))
			return
		}
		*into = value
	}
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

// describe says what stands in the file, for errors.
func describe(node *yaml.Node) string {
	switch node.Kind {
	case yaml.MappingNode:
		return "a mapping"
	case yaml.SequenceNode:
		return "a list"
	case yaml.AliasNode:
		return "an alias, which cluster files do not have"
	case yaml.ScalarNode:
		if node.ShortTag() == "!!null" {
			return "empty"
		}
		if len(node.Value) > 60 {
			return "a text of " + strconv.Itoa(len(node.Value)) + " bytes"
		}
		return strconv.Quote(node.Value)
	default:
		return "not understood"
	}
}
