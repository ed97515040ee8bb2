package yamlfile

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/holdfast-ha/holdfast/framework/nearest"
)

// Format is what Decode expects of a file beyond the types of its fields.
type Format struct {
	// Want is what the file holds, such as "a Cluster of holdfast.dev/v1alpha1", for errors.
	Want string
	// Rules are by path, such as spec.nodes[].name.
	Rules map[string]Rule
	// Typed means that the file is read as by a JSON schema: a string that looks like a number has
	// quotes, no field is empty, durations are above zero, and numbers are within the rule's limits.
	Typed bool
	// Special reads what is not written as its type says, and sets defaults. Decode reads a value for
	// which it returns false.
	Special func(d *Decoder, node *yaml.Node, path string, into any) (done bool)
}

// Rule is what the type of a field does not express. Its JSON is part of a JSON schema.
type Rule struct {
	Description string   `json:"description,omitempty"`
	Required    []string `json:"required,omitempty"` // the fields that a mapping must have
	OneField    bool     `json:"-"`                  // a mapping has exactly one of its fields
	OneOf       []string `json:"enum,omitempty"`     // the values of a string
	Pattern     string   `json:"pattern,omitempty"`  // of a string
	MinLength   int      `json:"minLength,omitempty"`
	MinItems    int      `json:"minItems,omitempty"`
	Minimum     int      `json:"minimum,omitempty"`
	Maximum     int      `json:"maximum,omitempty"` // MaxNumber if 0
	// Want describes the values of a string in errors.
	Want string `json:"-"`
}

// MaxNumber is the greatest number of a typed file, unless a rule overrides it.
const MaxNumber = 1 << 20

// DurationPattern matches the durations of a typed file.
const DurationPattern = `^([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+$`

var durationPattern = regexp.MustCompile(DurationPattern)

// Decoder reads one file.
type Decoder struct {
	*File
	format Format
	unread bool // a field could not be read
}

// index is the number of an item in a path.
var index = regexp.MustCompile(`\[\d+\]`)

func (d *Decoder) rule(path string) Rule {
	return d.format.Rules[index.ReplaceAllString(path, "[]")]
}

func (d *Decoder) broken(node *yaml.Node, path, format string, args ...any) {
	d.reported[path] = true
	d.problems = append(d.problems, problem{node.Line, fmt.Errorf("%s%s", d.position(node.Line), fmt.Sprintf(format, args...))})
}

// Unwanted adds the problem that a value is not what is wanted there.
func (d *Decoder) Unwanted(node *yaml.Node, path, want string) {
	d.unread = true
	d.broken(node, path, "%s is %s: want %s", cmp.Or(path, "the file"), describe(node), want)
}

// Decode reads a value into a pointer by its type.
func (d *Decoder) Decode(node *yaml.Node, path string, into any) {
	d.decode(node, path, reflect.ValueOf(into).Elem())
}

func (d *Decoder) decode(node *yaml.Node, path string, v reflect.Value) {
	pointer := v.Addr().Interface()
	if d.format.Special != nil && d.format.Special(d, node, path, pointer) {
		return
	}
	switch into := pointer.(type) {
	case *time.Duration:
		parse := time.ParseDuration
		if d.format.Typed {
			parse = parseTyped
		}
		if scalar(d, node, path, into, "", parse, "a duration such as 500ms or 5s") && d.format.Typed && *into == 0 {
			d.broken(node, path, "%s is %s: want a time above zero; leave it out for the default", path, describe(node))
		}
		return
	case *netip.Addr:
		scalar(d, node, path, into, "", parseAddress, "an IP address")
		return
	case *int:
		d.number(node, path, into)
		return
	case *bool:
		scalar(d, node, path, into, "!!bool", parseBool, "true or false")
		return
	}
	switch v.Kind() {
	case reflect.String:
		d.text(node, path, v, "!!bool", "!!int", "!!float")
	case reflect.Struct:
		d.mapping(node, path, v)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		d.decode(node, path, v.Elem())
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		d.entries(node, path, func(key, value *yaml.Node, path string) {
			element := reflect.New(v.Type().Elem()).Elem()
			if element.Kind() == reflect.String { // YAML writes 3 and true without quotes
				d.text(value, path, element)
			} else {
				d.decode(value, path, element)
			}
			v.SetMapIndex(reflect.ValueOf(key.Value).Convert(v.Type().Key()), element)
		})
	case reflect.Slice:
		d.list(node, path, v)
	default:
		panic("a file cannot have a " + v.Type().String())
	}
}

// text reads any scalar as written. In a typed file the tags are those of values that need quotes.
func (d *Decoder) text(node *yaml.Node, path string, v reflect.Value, quoted ...string) {
	rule, value := d.rule(path), node.Value
	empty := node.ShortTag() == "!!null"
	if node.Kind != yaml.ScalarNode || d.format.Typed && empty {
		d.Unwanted(node, path, cmp.Or(rule.Want, "a string"))
		return
	}
	if empty {
		value = ""
	}
	v.SetString(value)
	switch {
	case d.format.Typed && slices.Contains(quoted, node.ShortTag()):
		d.broken(node, path, "%s is %s: want %s", path, value, cmp.Or(rule.Want, "a string, in quotes"))
	case rule.OneOf != nil && !slices.Contains(rule.OneOf, value):
		d.broken(node, path, "%s is %s: want %s", path, describe(node), oneOf(rule.OneOf, value))
	case len(value) < rule.MinLength, rule.Pattern != "" && !regexp.MustCompile(rule.Pattern).MatchString(value):
		d.broken(node, path, "%s is %s: want %s", path, describe(node), cmp.Or(rule.Want, "a string"))
	}
}

// oneOf lists the allowed values, and the one that a value looks mistyped from.
func oneOf(values []string, got string) string {
	list := strings.Join(values, ", ") + nearest.Meant(values, got)
	if len(values) > 1 {
		return "one of " + list
	}
	return list
}

// scalar reads a scalar, which has that tag in a typed file, and parses it; want describes what is
// expected. It reports whether the value was read.
func scalar[T any](d *Decoder, node *yaml.Node, path string, into *T, tag string, parse func(string) (T, error), want string) bool {
	value, err := parse(node.Value)
	if node.Kind != yaml.ScalarNode || err != nil || d.format.Typed && tag != "" && node.ShortTag() != tag {
		d.Unwanted(node, path, want)
		return false
	}
	*into = value
	return true
}

func (d *Decoder) number(node *yaml.Node, path string, into *int) {
	least, most := d.rule(path).Minimum, cmp.Or(d.rule(path).Maximum, MaxNumber)
	if scalar(d, node, path, into, "!!int", parseInt, "a whole number") && d.format.Typed && (*into < least || *into > most) {
		d.broken(node, path, "%s is %d: want %d to %d", path, *into, least, most)
	}
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

func parseTyped(text string) (time.Duration, error) {
	if !durationPattern.MatchString(text) {
		return 0, strconv.ErrSyntax
	}
	return time.ParseDuration(text)
}

func parseAddress(text string) (netip.Addr, error) {
	a, err := netip.ParseAddr(text)
	if err == nil && a.Zone() != "" {
		err = errors.New("it has a zone")
	}
	return a, err
}

func (d *Decoder) list(node *yaml.Node, path string, v reflect.Value) {
	if node.Kind != yaml.SequenceNode {
		d.Unwanted(node, path, "a list")
		return
	}
	if len(node.Content) < d.rule(path).MinItems {
		d.broken(node, path, "%s is an empty list: want one item or more", path)
	}
	v.Set(reflect.MakeSlice(v.Type(), len(node.Content), len(node.Content)))
	for i, item := range node.Content {
		at := fmt.Sprintf("%s[%d]", path, i)
		d.lines[at] = item.Line
		d.decode(item, at, v.Index(i))
	}
}

// FieldName returns the name of a struct's field in files: that of its tag file, json or yaml;
// empty if it is not part of a file, as with the tag file:"-".
func FieldName(field reflect.StructField) string {
	name, _, _ := strings.Cut(cmp.Or(field.Tag.Get("file"), field.Tag.Get("json"), field.Tag.Get("yaml")), ",")
	return strings.TrimPrefix(name, "-")
}

// mapping reads a mapping that has the fields of a struct and no others.
func (d *Decoder) mapping(node *yaml.Node, path string, v reflect.Value) {
	var names []string
	fields := map[string]reflect.Value{}
	for _, field := range reflect.VisibleFields(v.Type()) {
		if name := FieldName(field); name != "" {
			names = append(names, name)
			fields[name] = v.FieldByIndex(field.Index)
		}
	}
	seen := map[string]bool{}
	d.entries(node, path, func(key, value *yaml.Node, path string) {
		seen[key.Value] = true
		field, ok := fields[key.Value]
		switch {
		case !ok:
			d.broken(key, path, "unknown field %s: want %s", path, oneOf(names, key.Value))
		case d.format.Typed || value.ShortTag() != "!!null": // a field without a value is as good as absent
			d.decode(value, path, field)
		}
	})
	if node.Kind != yaml.MappingNode {
		return // the problem is a larger one
	}
	rule := d.rule(path)
	for _, name := range rule.Required {
		if !seen[name] {
			d.broken(node, Join(path, name), "%s is missing", Join(path, name))
		}
	}
	if rule.OneField && len(seen) != 1 {
		d.broken(node, path, "%s has %d fields: want exactly one of %s", path, len(seen), strings.Join(names, ", "))
	}
}

// entries reads a mapping with any keys.
func (d *Decoder) entries(node *yaml.Node, path string, entry func(key, value *yaml.Node, path string)) {
	if node.Kind != yaml.MappingNode {
		want := "a mapping"
		if path == "" {
			want = d.format.Want
		}
		d.Unwanted(node, path, want)
		return
	}
	seen := map[string]int{}
	for i := 0; i+1 < len(node.Content); i += 2 {
		key, value := node.Content[i], node.Content[i+1]
		if key.Kind != yaml.ScalarNode {
			d.broken(key, path, "%s has a key that is %s: want a name", cmp.Or(path, "the file"), describe(key))
			continue
		}
		full := Join(path, key.Value)
		if first, ok := seen[key.Value]; ok {
			d.broken(key, full, "%s is given twice: the first is on line %d", full, first)
			continue
		}
		seen[key.Value] = key.Line
		d.lines[full] = key.Line
		entry(key, value, full)
	}
}

// Join returns the path of a field of the mapping at a path.
func Join(path, name string) string { return strings.TrimPrefix(path+"."+name, ".") }

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
