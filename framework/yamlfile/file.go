// Package yamlfile reads the YAML files that users write: one document, without unknown fields,
// repeated fields and aliases. Errors contain file, line, field, and the allowed values; all errors
// of a file are reported together.
package yamlfile

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// APIVersion is the apiVersion of holdfast's own files.
const APIVersion = "holdfast.dev/v1alpha1"

// takenBy are the commands that take holdfast's own files, by kind.
var takenBy = map[string]string{
	"Cluster":   "holdfast up -f, or holdfast run --cluster",
	"Inventory": "holdfast run --inventory",
	"Scenario":  "holdfast run -f",
}

// maxSize prevents a file of another kind from filling the memory.
const maxSize = 1 << 20

// File has the line of each field of a file, and the problems in them.
type File struct {
	Name     string
	lines    map[string]int // by path, such as spec.nodes[0].name
	problems []problem
	reported map[string]bool // paths with a problem that Decode found
}

// problem is an error on a line; 0 if the line is unknown.
type problem struct {
	line int
	err  error
}

// Load returns the content of a file, and its name for errors; - means standard input. kind is for
// errors, such as cluster.
func Load(path, kind string) (name string, data []byte, err error) {
	file := os.Stdin
	if path == "-" {
		path = "standard input"
	} else if file, err = os.Open(path); err == nil {
		defer file.Close()
	}
	if err == nil {
		data, err = io.ReadAll(io.LimitReader(file, maxSize+1))
	}
	if err != nil {
		return "", nil, fmt.Errorf("failed to read the %s file: %w", kind, err)
	}
	return path, data, nil
}

// Decode reads the content of a file into a value. Omitted fields keep their values. The error has
// all problems. The returned file is nil if a field could not be read: further checks would report
// what follows from that. Otherwise they may add their problems to those of the file.
func Decode(name string, data []byte, into any, format Format) (*File, error) {
	if len(data) > maxSize {
		return nil, fmt.Errorf("%s is larger than %d bytes: want %s", name, maxSize, format.Want)
	}
	documents := yaml.NewDecoder(bytes.NewReader(data))
	var document, second yaml.Node
	if err := documents.Decode(&document); errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%s is empty: want %s", name, format.Want)
	} else if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if err := documents.Decode(&second); err == nil {
		return nil, fmt.Errorf("%s:%d: a second document: a file holds one", name, second.Line)
	} else if !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	f := &File{Name: name, lines: map[string]int{}, reported: map[string]bool{}}
	root := document.Content[0]
	if err := f.otherKind(root, format.Want); err != nil {
		return nil, err
	}
	d := &Decoder{File: f, format: format}
	d.decode(root, "", reflect.ValueOf(into).Elem())
	if d.unread {
		return nil, f.Err()
	}
	return f, f.Err()
}

// otherKind returns an error for a file of holdfast's of another kind than wanted.
func (f *File) otherKind(root *yaml.Node, want string) error {
	var file struct {
		APIVersion string    `yaml:"apiVersion"`
		Kind       yaml.Node `yaml:"kind"`
	}
	if root.Decode(&file) != nil || file.APIVersion != APIVersion || takenBy[file.Kind.Value] == "" || strings.Contains(want, file.Kind.Value) {
		return nil
	}
	return fmt.Errorf("%s:%d: kind is %s: want %s; a file of kind %[3]s is for %[5]s", f.Name, file.Kind.Line, file.Kind.Value, want, takenBy[file.Kind.Value])
}

// Where returns the position of the field at a path, as a prefix of errors; without a line if the
// file does not have the field.
func (f *File) Where(path string) string { return f.position(f.lines[path]) }

// line returns the line of the field at a path, or of the nearest one above it.
func (f *File) line(path string) int {
	for {
		if line, ok := f.lines[path]; ok || path == "" {
			return line
		}
		path = path[:max(0, strings.LastIndexAny(path, ".["))]
	}
}

func (f *File) position(line int) string {
	if line == 0 {
		return f.Name + ": "
	}
	return fmt.Sprintf("%s:%d: ", f.Name, line)
}

// Problem adds a problem with the field at a path, unless Decode already found one there.
func (f *File) Problem(path, format string, args ...any) {
	if !f.reported[path] {
		line := f.line(path)
		f.problems = append(f.problems, problem{line, fmt.Errorf("%s%s: %s", f.position(line), cmp.Or(path, "the file"), fmt.Sprintf(format, args...))})
	}
}

// Err returns all problems in the order of the file; nil if there are none.
func (f *File) Err() error {
	slices.SortStableFunc(f.problems, func(a, b problem) int { return cmp.Compare(a.line, b.line) })
	var all []error
	for _, p := range f.problems {
		all = append(all, p.err)
	}
	return errors.Join(all...)
}
