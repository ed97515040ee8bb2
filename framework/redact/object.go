package redact

import (
	"regexp"
	"strings"
)

// Components that log in detail (-v=8) log whole objects. In a Secret, the values have names of the
// user's choice and are in base64, so neither a name nor a known value finds them: the line goes.
var (
	// secretKind and secretData are in the JSON of a Secret or of a list of them, also in JSON that
	// is itself a string of JSON.
	secretKind = regexp.MustCompile(`kind\\*["']\s*:\s*\\*["']Secret(List)?\\*["']`)
	secretData = regexp.MustCompile(`["'](data|stringData)\\*["']\s*:\s*\{`)
	// dump matches a line of a body in protobuf, as clients log it: offset, bytes, and their text.
	dump = regexp.MustCompile(`\b[0-9a-f]{8}  (?:[0-9a-f]{2} {1,2}){1,16} *\|`)
)

// isObject reports whether a line has the values of a Secret, or a body that may be one.
func isObject(s string) bool {
	if strings.Contains(s, "  |") && dump.MatchString(s) {
		return true
	}
	if !strings.Contains(s, "Secret") {
		return false
	}
	if strings.Contains(s, "Secret{") && strings.Contains(s, "Data:map[") { // as Go prints it
		return true
	}
	return secretKind.MatchString(s) && secretData.MatchString(s)
}
