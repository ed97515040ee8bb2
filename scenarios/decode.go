package scenarios

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// file is a YAML file with the line of each of its parts.
type file struct {
	name     string
	lines    map[string]int // by path, such as "spec.timeline[0].wait"
	problems []problem
}

// problem is an error on a line, 0 if the line is unknown.
type problem struct {
	line int
	err  error
}

// err joins all problems in the order of the file.
func (f *file) err() error {
	slices.SortStableFunc(f.problems, func(a, b problem) int { return cmp.Compare(a.line, b.line) })
	var all []error
	for _, p := range f.problems {
		all = append(all, p.err)
	}
	return errors.Join(all...)
}

// undecoded records errors of the YAML decoder for values that the schema allows, such as a
// duration with more digits than time supports.
func (f *file) undecoded(err error) {
	var types *yaml.TypeError
	if !errors.As(err, &types) {
		f.problem("", err.Error())
		return
	}
	for _, text := range types.Errors {
		var line int
		if n, _ := fmt.Sscanf(text, "line %d:", &line); n == 1 {
			_, text, _ = strings.Cut(text, ": ")
		}
		if value, _, ok := strings.Cut(strings.TrimPrefix(text, "cannot unmarshal !!"), " into "); ok {
			_, value, _ = strings.Cut(value, " ")
			text = value + ": want a value that is not as large, or of another kind"
		}
		f.problems = append(f.problems, problem{line, fmt.Errorf("%s:%d: %s", f.name, line, text)})
	}
}

// document returns the only document of a file.
func document(name string, data []byte) (*yaml.Node, error) {
	if len(data) > maxFileSize {
		return nil, fmt.Errorf("%s is larger than %d bytes: this is not a scenario file", name, maxFileSize)
	}
	documents := yaml.NewDecoder(bytes.NewReader(data))
	var doc, second yaml.Node
	if err := documents.Decode(&doc); errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%s is empty", name)
	} else if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if err := documents.Decode(&second); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%s:%d: a second document: one file holds one", name, second.Line)
	}
	return doc.Content[0], nil
}

// mustDecode decodes a file that is part of the program and tested with it.
func mustDecode[T any](data []byte) (v T) {
	d := yaml.NewDecoder(bytes.NewReader(data))
	d.KnownFields(true)
	if err := d.Decode(&v); err != nil {
		panic(err)
	}
	return v
}

// problem records an error in the part at a path. Its line is that of the nearest part in the
// file.
func (f *file) problem(path, text string) {
	at, line := f.name, 0
	for p := path; ; p = p[:max(0, strings.LastIndexAny(p, ".["))] {
		if known, ok := f.lines[p]; ok {
			line = known
			at = fmt.Sprintf("%s:%d", f.name, line)
			break
		}
		if p == "" {
			break
		}
	}
	path = cmp.Or(path, "the file")
	f.problems = append(f.problems, problem{line, fmt.Errorf("%s: %s: %s", at, path, text)})
}

// value returns the JSON value of a node, and records the lines.
func (f *file) value(n *yaml.Node, path string) any {
	f.lines[path] = n.Line
	switch n.Kind {
	case yaml.MappingNode:
		fields := map[string]any{}
		for i := 0; i+1 < len(n.Content); i += 2 {
			name := n.Content[i].Value
			at := strings.TrimPrefix(path+"."+name, ".")
			value := f.value(n.Content[i+1], at)
			f.lines[at] = n.Content[i].Line
			if _, twice := fields[name]; twice {
				f.problem(at, "given twice")
			}
			fields[name] = value
		}
		return fields
	case yaml.SequenceNode:
		items := make([]any, len(n.Content))
		for i, item := range n.Content {
			items[i] = f.value(item, fmt.Sprintf("%s[%d]", path, i))
		}
		return items
	case yaml.ScalarNode:
		var value any
		switch err := n.Decode(&value); value.(type) {
		case nil, bool, int, float64:
			if err == nil {
				return value
			}
		}
		return n.Value
	}
	f.problem(path, "aliases are not allowed")
	return nil
}
