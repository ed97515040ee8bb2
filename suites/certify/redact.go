package certify

import (
	"bytes"
	"slices"
	"strings"

	"github.com/holdfast-ha/holdfast/clusters"
	"github.com/holdfast-ha/holdfast/framework/redact"
)

// redactor removes secrets from what goes into a bundle. Records have none: their writer removes
// them.
type redactor struct{ *redact.Redactor }

// arguments redacts the values of flags by name.
func (r redactor) arguments(all clusters.ExtraArgs) clusters.ExtraArgs {
	kept := clusters.ExtraArgs{}
	for component, flags := range all {
		kept[component] = map[string]string{}
		for flag, value := range flags {
			if redact.Secret(flag) {
				value = redact.Mark
			}
			kept[component][flag] = r.Text(value)
		}
	}
	return kept
}

// command redacts a command line: a flag's value may be a separate argument, and may have spaces.
func (r redactor) command(args []string) []string {
	kept := slices.Clone(args)
	for i, arg := range kept {
		name, _, assigned := strings.Cut(arg, "=")
		switch {
		case assigned && redact.Secret(name):
			kept[i] = name + "=" + redact.Mark
		case i > 0 && strings.HasPrefix(args[i-1], "-") && !strings.Contains(args[i-1], "=") && redact.Secret(args[i-1]):
			kept[i] = redact.Mark
		default:
			kept[i] = r.Text(arg)
		}
	}
	return kept
}

// tail returns the last bytes of a log, starting at the beginning of a line.
func tail(data []byte, limit int) []byte {
	if len(data) <= limit {
		return data
	}
	data = data[len(data)-limit:]
	if i := bytes.IndexByte(data, '\n'); i >= 0 {
		data = data[i+1:]
	}
	return data
}
