package scenarios

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// decoder fills structs from YAML strictly: a field that a struct does not have
// or a value of another type is a problem, told with file, line and what is
// allowed. It goes on after a problem, so that all are told at once.
type decoder struct {
	file     string
	lines    map[string]int // by path of the field
	problems []error
}

func (d *decoder) problem(n *yaml.Node, format string, args ...any) {
	d.problems = append(d.problems, fmt.Errorf("%s:%d: %s", d.file, n.Line, fmt.Sprintf(format, args...)))
}

var durationType = reflect.TypeFor[time.Duration]()

// decode fills v from n; path names the field for people.
func (d *decoder) decode(n *yaml.Node, path string, v reflect.Value) {
	d.lines[path] = n.Line
	if n.Kind == yaml.AliasNode {
		d.problem(n, "%s: aliases are not allowed", path)
		return
	}
	switch {
	case v.Type() == durationType:
		value, err := time.ParseDuration(n.Value)
		if err != nil {
			d.problem(n, "%s: %q: want a duration such as 500ms or 5s", path, n.Value)
		}
		v.SetInt(int64(value))
	case v.Kind() == reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		d.decode(n, path, v.Elem())
	case v.Kind() == reflect.Struct:
		d.structure(n, path, v)
	case v.Kind() == reflect.Slice:
		if n.Kind != yaml.SequenceNode {
			d.problem(n, "%s: want a list", path)
			return
		}
		v.Set(reflect.MakeSlice(v.Type(), len(n.Content), len(n.Content)))
		for i, item := range n.Content {
			d.decode(item, fmt.Sprintf("%s[%d]", path, i), v.Index(i))
		}
	case v.Kind() == reflect.Map:
		d.mapping(n, path, v)
	default:
		d.scalar(n, path, v)
	}
}

func (d *decoder) scalar(n *yaml.Node, path string, v reflect.Value) {
	if n.Kind != yaml.ScalarNode {
		d.problem(n, "%s: want a single value", path)
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(n.Value)
	case reflect.Bool:
		value, err := strconv.ParseBool(n.Value)
		if err != nil {
			d.problem(n, "%s: %q: want true or false", path, n.Value)
		}
		v.SetBool(value)
	case reflect.Int:
		value, err := strconv.Atoi(n.Value)
		if err != nil {
			d.problem(n, "%s: %q: want a whole number", path, n.Value)
		}
		v.SetInt(int64(value))
	default:
		panic("scenarios: no decoder for " + v.Type().String())
	}
}

// mapping fills a map from string to string.
func (d *decoder) mapping(n *yaml.Node, path string, v reflect.Value) {
	if n.Kind != yaml.MappingNode {
		d.problem(n, "%s: want names with values", path)
		return
	}
	v.Set(reflect.MakeMap(v.Type()))
	for i := 0; i+1 < len(n.Content); i += 2 {
		value := reflect.New(v.Type().Elem()).Elem()
		d.decode(n.Content[i+1], path+"."+n.Content[i].Value, value)
		v.SetMapIndex(reflect.ValueOf(n.Content[i].Value), value)
	}
}

func (d *decoder) structure(n *yaml.Node, path string, v reflect.Value) {
	if n.Kind != yaml.MappingNode {
		d.problem(n, "%s: want fields", orFile(path))
		return
	}
	fields := map[string]reflect.Value{}
	var names []string
	for i := range v.NumField() {
		if name := v.Type().Field(i).Tag.Get("yaml"); name != "" {
			fields[name] = v.Field(i)
			names = append(names, name)
		}
	}
	var seen []string
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i]
		at := strings.TrimPrefix(path+"."+key.Value, ".")
		field, known := fields[key.Value]
		switch {
		case !known:
			d.problem(key, "%s: unknown field; allowed here: %s", at, strings.Join(names, ", "))
		case slices.Contains(seen, key.Value):
			d.problem(key, "%s: given twice", at)
		default:
			d.decode(n.Content[i+1], at, field)
		}
		seen = append(seen, key.Value)
	}
}

func orFile(path string) string {
	if path == "" {
		return "the file"
	}
	return path
}
