package certify

import (
	"bufio"
	"bytes"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/holdfast-ha/holdfast/clusters"
)

// redacted replaces possible secrets in a bundle.
const redacted = "[redacted]"

// secretWord matches words at the start or end of a secret's name.
const secretWord = `(?i:token|passw(?:or)?d|passphrase|secret|credential|api[-_]?key|access[-_]?key|private[-_]?key|client-key-data|encryption[-_]?key)`

var (
	// secretName matches the name of a flag or variable with a secret value. One with the path
	// of the secret's file is excluded by pathName.
	secretName = regexp.MustCompile(`^[-\w.]*` + secretWord + `[-\w.]*$`)
	pathName   = regexp.MustCompile(`(?i)(file|path|dir|url|ttl|duration|expiration|endpoint|issuer|audience)s?$`)

	assigned = regexp.MustCompile(`([-\w.]*` + secretWord + `[-\w.]*)(\\?["']?\s*[:=]\s*\\?["']?)([^\s"',;&}\\]+)`)
	bearer   = regexp.MustCompile(`(?i)\b(bearer|basic)(\s+)([A-Za-z0-9+/._~=-]{8,})`)
	jwt      = regexp.MustCompile(`eyJ[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]*`)
	// bootstrap matches bootstrap tokens and the predecessors of service account tokens.
	bootstrap = regexp.MustCompile(`\b[a-z0-9]{6}\.[a-z0-9]{16}\b`)
	pemLine   = regexp.MustCompile(`-----(BEGIN|END) [A-Z ]*PRIVATE KEY-----`)
	// pemInline matches a key on one line, with line breaks written as \n, or in base64.
	pemInline = regexp.MustCompile(`-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(-----END [A-Z ]*PRIVATE KEY-----|$)`)
	// keyLine matches a line of a key without its first line.
	keyLine   = regexp.MustCompile(`^[A-Za-z0-9+/]{64}$`)
	pemBase64 = regexp.MustCompile(`LS0tLS1CRUdJTi[A-Za-z0-9+/=]+`)
)

// redactor removes secrets from text.
type redactor struct {
	values []string // known ones
	inKey  bool     // within a private key
}

// newRedactor returns a redactor that knows the secrets in the environment of this process.
func newRedactor() *redactor {
	r := &redactor{}
	for _, entry := range os.Environ() {
		name, value, _ := strings.Cut(entry, "=")
		if secretName.MatchString(name) && !pathName.MatchString(name) && len(value) >= 6 {
			r.values = append(r.values, value)
		}
	}
	// A longer secret may contain a shorter one.
	slices.SortFunc(r.values, func(a, b string) int { return len(b) - len(a) })
	return r
}

// line returns a line without possible secrets.
func (r *redactor) line(s string) string {
	if strings.Contains(s, "PRIVATE KEY-----") {
		marks := pemLine.FindAllStringSubmatch(s, -1)
		if len(marks) > 0 {
			began := r.inKey
			r.inKey = marks[len(marks)-1][1] == "BEGIN"
			if began {
				return redacted
			}
		}
		s = pemInline.ReplaceAllString(s, redacted)
	} else if r.inKey || keyLine.MatchString(s) {
		return redacted
	}
	for _, v := range r.values {
		s = strings.ReplaceAll(s, v, redacted)
	}
	s = jwt.ReplaceAllString(s, redacted)
	s = pemBase64.ReplaceAllString(s, redacted)
	s = bearer.ReplaceAllString(s, "${1}${2}"+redacted)
	s = bootstrap.ReplaceAllString(s, redacted)
	return assigned.ReplaceAllStringFunc(s, func(m string) string {
		part := assigned.FindStringSubmatch(m)
		if pathName.MatchString(part[1]) || part[3] == redacted {
			return m
		}
		return part[1] + part[2] + redacted
	})
}

// text redacts each line of a text.
func (r *redactor) text(s string) string {
	lines := strings.SplitAfter(s, "\n")
	for i, line := range lines {
		end := ""
		if strings.HasSuffix(line, "\n") {
			line, end = line[:len(line)-1], "\n"
		}
		lines[i] = r.line(line) + end
	}
	return strings.Join(lines, "")
}

// copy copies a log, line by line.
func (r *redactor) copy(out io.Writer, in io.Reader) error {
	r.inKey = false
	w := bufio.NewWriter(out)
	lines := bufio.NewReaderSize(in, 64<<10)
	for {
		line, err := lines.ReadString('\n')
		if line != "" {
			if _, err := w.WriteString(r.text(line)); err != nil {
				return err
			}
		}
		if err == io.EOF {
			return w.Flush()
		}
		if err != nil {
			return err
		}
	}
}

// arguments redacts the values of flags by name.
func (r *redactor) arguments(all clusters.ExtraArgs) clusters.ExtraArgs {
	kept := clusters.ExtraArgs{}
	for component, flags := range all {
		kept[component] = map[string]string{}
		for flag, value := range flags {
			if secretName.MatchString(flag) && !pathName.MatchString(flag) {
				value = redacted
			}
			kept[component][flag] = r.text(value)
		}
	}
	return kept
}

// command redacts a command line: a flag's value may be a separate argument.
func (r *redactor) command(args []string) []string {
	kept := slices.Clone(args)
	for i, arg := range kept {
		if i > 0 && strings.HasPrefix(args[i-1], "-") && !strings.Contains(args[i-1], "=") && secretName.MatchString(args[i-1]) && !pathName.MatchString(args[i-1]) {
			kept[i] = redacted
			continue
		}
		kept[i] = r.text(arg)
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
