package clusters

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/holdfast-ha/holdfast/framework"
)

// decoder walks a YAML document and collects all its errors, each with its line. lines maps
// each field to its line.
type decoder struct {
	file     string
	want     string              // what the file should hold
	required map[string][]string // the fields that the mapping at a path must have
	lines    map[string]int
	problems []error
}

func (d *decoder) position(line int) string {
	if line == 0 {
		return d.file + ": "
	}
	return fmt.Sprintf("%s:%d: ", d.file, line)
}

// where returns the position of the field at a path.
func (d *decoder) where(path string) string { return d.position(d.lines[path]) }

func (d *decoder) problem(node *yaml.Node, format string, args ...any) {
	d.problems = append(d.problems, fmt.Errorf("%s%s", d.position(node.Line), fmt.Sprintf(format, args...)))
}

// decode reads a node into v by its type. Fields have their JSON names, or else their
// YAML names; a field that is not part of a file has the tag file:"-".
func (d *decoder) decode(node *yaml.Node, path string, v reflect.Value) {
	switch into := v.Addr().Interface().(type) {
	case *time.Duration:
		decodeScalar(d, node, path, into, time.ParseDuration, "a duration such as 500ms or 2s")
		return
	case *netip.Addr:
		decodeScalar(d, node, path, into, parseAddress, "an IP address")
		return
	case *HealthCheck:
		if *into == (HealthCheck{}) {
			*into = Default().Spec.LoadBalancer.HealthCheck
		}
	case *framework.Election:
		*into = framework.Election{LeaseDuration: defaultLeaseDuration, RenewDeadline: defaultRenewDeadline, RetryPeriod: defaultRetryPeriod}
		if node.ShortTag() == "!!null" {
			return
		}
	case *[]NodeSpec:
		// A number, or a list of overrides.
		if node.Kind == yaml.ScalarNode {
			n := 0
			d.decode(node, path, reflect.ValueOf(&n).Elem())
			// Other numbers are reported by Validate; here they only must not do harm.
			*into = make([]NodeSpec, min(max(n, 0), MaxNodes+1))
			return
		}
		if node.Kind != yaml.SequenceNode {
			d.problem(node, "%s is %s: want 1, 3, 5 or 7, or a list of nodes", path, describe(node))
			return
		}
	case *int:
		decodeScalar(d, node, path, into, parseInt, "a whole number")
		return
	case *bool:
		decodeScalar(d, node, path, into, parseBool, "true or false")
		return
	}
	switch v.Kind() {
	case reflect.String:
		d.text(node, path, v)
	case reflect.Struct:
		d.mapping(node, path, v)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		d.decode(node, path, v.Elem())
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		d.entries(node, path, func(key, value *yaml.Node, path string) {
			element := reflect.New(v.Type().Elem()).Elem()
			d.decode(value, path, element)
			v.SetMapIndex(reflect.ValueOf(key.Value).Convert(v.Type().Key()), element)
		})
	case reflect.Slice:
		d.list(node, path, v)
	default:
		panic("a file cannot have a " + v.Type().String())
	}
}

// text reads any scalar as written.
func (d *decoder) text(node *yaml.Node, path string, v reflect.Value) {
	switch {
	case node.Kind != yaml.ScalarNode:
		d.problem(node, "%s is %s: want a string", path, describe(node))
	case node.ShortTag() == "!!null":
		v.SetString("")
	default:
		v.SetString(node.Value)
	}
}

// decodeScalar reads a scalar and parses it with parse; want describes what is expected.
func decodeScalar[T any](d *decoder, node *yaml.Node, path string, into *T, parse func(string) (T, error), want string) {
	value, err := parse(node.Value)
	if node.Kind != yaml.ScalarNode || err != nil {
		d.problem(node, "%s is %s: want %s", path, describe(node), want)
		return
	}
	*into = value
}

func parseInt(text string) (int, error) {
	n, err := strconv.ParseInt(text, 10, 32)
	return int(n), err
}

func parseBool(text string) (bool, error) {
	if text != "true" && text != "false" {
		return false, strconv.ErrSyntax
	}
	return text == "true", nil
}

func parseAddress(text string) (netip.Addr, error) {
	a, err := netip.ParseAddr(text)
	if err == nil && a.Zone() != "" {
		err = errors.New("it has a zone")
	}
	return a, err
}

// list reads a list of any items.
func (d *decoder) list(node *yaml.Node, path string, v reflect.Value) {
	if node.Kind != yaml.SequenceNode {
		d.problem(node, "%s is %s: want a list", path, describe(node))
		return
	}
	v.Set(reflect.MakeSlice(v.Type(), len(node.Content), len(node.Content)))
	for i, item := range node.Content {
		at := fmt.Sprintf("%s[%d]", path, i)
		d.lines[at] = item.Line
		d.decode(item, at, v.Index(i))
	}
}

// mapping reads a mapping that has the fields of a struct and no others.
func (d *decoder) mapping(node *yaml.Node, path string, v reflect.Value) {
	var names []string
	fields := map[string]reflect.Value{}
	for i := range v.NumField() {
		if field := v.Type().Field(i); field.Tag.Get("file") != "-" {
			name, _, _ := strings.Cut(cmp.Or(field.Tag.Get("file"), field.Tag.Get("json"), field.Tag.Get("yaml")), ",")
			names = append(names, name)
			fields[name] = v.Field(i)
		}
	}
	seen := map[string]bool{}
	d.entries(node, path, func(key, value *yaml.Node, path string) {
		seen[key.Value] = true
		field, ok := fields[key.Value]
		switch {
		case !ok:
			d.problem(key, "unknown field %s: want one of %s", path, strings.Join(names, ", "))
		case value.ShortTag() != "!!null": // a field without a value is as good as absent
			d.decode(value, path, field)
		}
	})
	if node.Kind != yaml.MappingNode {
		return // the problem is a larger one
	}
	for _, name := range d.required[index.ReplaceAllString(path, "[]")] {
		if !seen[name] {
			d.problem(node, "%s is missing", join(path, name))
		}
	}
}

// index is the number of an item in a path.
var index = regexp.MustCompile(`\[\d+\]`)

// entries reads a mapping with any keys.
func (d *decoder) entries(node *yaml.Node, path string, entry func(key, value *yaml.Node, path string)) {
	if node.Kind != yaml.MappingNode {
		what, want := path, "a mapping"
		if path == "" {
			what, want = "the file", d.want
		}
		d.problem(node, "%s is %s: want %s", what, describe(node), want)
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

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

// describe returns what the file contains, for errors.
func describe(node *yaml.Node) string {
	switch node.Kind {
	case yaml.MappingNode:
		return "a mapping"
	case yaml.SequenceNode:
		return "a list"
	case yaml.AliasNode:
		return "an alias, which is not allowed"
	case yaml.ScalarNode:
		if node.ShortTag() == "!!null" {
			return "empty"
		}
		if len(node.Value) > 60 {
			return "a string of " + strconv.Itoa(len(node.Value)) + " bytes"
		}
		return strconv.Quote(node.Value)
	default:
		return "not understood"
	}
}
