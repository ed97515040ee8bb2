// Package redact removes secrets from texts that are kept or published: the error texts of
// records, component logs, arguments and commands. It finds the secrets in the environment of the
// process by their values, and all others by their form or by their name.
package redact

import (
	"bufio"
	"cmp"
	"encoding/base64"
	"io"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
)

// Mark replaces a secret.
const Mark = "[redacted]"

var (
	bearer = regexp.MustCompile(`(?i)\b(bearer|basic)(\s+)([A-Za-z0-9+/._~=-]{8,})`)
	jwt    = regexp.MustCompile(`eyJ[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]*`)
	// bootstrap matches bootstrap tokens and the predecessors of service account tokens.
	bootstrap = regexp.MustCompile(`\b[a-z0-9]{6}\.[a-z0-9]{16}\b`)
	pemLine   = regexp.MustCompile(`-----(BEGIN|END) [A-Z ]*PRIVATE KEY-----`)
	// pemInline matches a key on one line, with line breaks written as \n, or in base64.
	pemInline = regexp.MustCompile(`-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(-----END [A-Z ]*PRIVATE KEY-----|$)`)
	// keyLine matches a line of a key without its first line; digest one of a SHA-256 digest.
	keyLine   = regexp.MustCompile(`^[A-Za-z0-9+/]{64}$`)
	digest    = regexp.MustCompile(`^[0-9a-f]{64}$`)
	pemBase64 = regexp.MustCompile(`LS0tLS1CRUdJTi[A-Za-z0-9+/=]+`)
)

// auditEvent is in each entry of an audit log, which may have the requests with their Secrets.
const auditEvent = `"apiVersion":"audit.k8s.io/`

// Redactor removes secrets from texts. Its methods may be called concurrently. The zero value
// knows no values of secrets.
type Redactor struct {
	known []string // values, the longest first
}

// New returns a redactor that knows the secrets in the environment of this process, also in base64
// and escaped for a URL.
func New() *Redactor {
	r := &Redactor{}
	for _, entry := range os.Environ() {
		name, value, _ := strings.Cut(entry, "=")
		if Secret(name) && len(value) >= 6 {
			r.known = append(r.known, value, base64.RawStdEncoding.EncodeToString([]byte(value)), url.QueryEscape(value), url.PathEscape(value))
		}
	}
	// A longer secret may contain a shorter one.
	slices.SortFunc(r.known, func(a, b string) int { return cmp.Or(len(b)-len(a), strings.Compare(a, b)) })
	r.known = slices.Compact(r.known)
	return r
}

// Text returns a text without possible secrets. Its result is the same for a text that was
// redacted before.
func (r *Redactor) Text(s string) string {
	if s == "" {
		return s
	}
	if !strings.Contains(s, "\n") {
		return (&lines{Redactor: r}).line(s)
	}
	var b strings.Builder
	_ = r.Copy(&b, strings.NewReader(s)) // neither fails
	return b.String()
}

// Copy copies a text, line by line, without possible secrets.
func (r *Redactor) Copy(out io.Writer, in io.Reader) error {
	l := &lines{Redactor: r}
	w := bufio.NewWriter(out)
	all := bufio.NewReaderSize(in, 64<<10)
	for {
		line, err := all.ReadString('\n')
		text, whole := strings.CutSuffix(line, "\n")
		if text != "" {
			text = l.line(text)
		}
		if whole {
			text += "\n"
		}
		if _, err := w.WriteString(text); err != nil {
			return err
		}
		if err == io.EOF {
			return w.Flush()
		}
		if err != nil {
			return err
		}
	}
}

// lines redacts the lines of one text in order.
type lines struct {
	*Redactor
	inKey bool // within a private key
}

func (l *lines) line(s string) string {
	object := strings.Contains(s, auditEvent) || isObject(s)
	if strings.Contains(s, "PRIVATE KEY-----") {
		marks := pemLine.FindAllStringSubmatch(s, -1)
		if len(marks) > 0 {
			began := l.inKey
			l.inKey = marks[len(marks)-1][1] == "BEGIN"
			if began {
				return Mark
			}
		}
		s = pemInline.ReplaceAllString(s, Mark)
	} else if l.inKey || len(s) == 64 && keyLine.MatchString(s) && !digest.MatchString(s) {
		return Mark
	}
	if object {
		return Mark
	}
	for _, v := range l.known {
		s = strings.ReplaceAll(s, v, Mark)
	}
	return byName(byForm(withoutUserinfo(s)))
}

// byForm redacts what looks like a secret. It matches only patterns of which a part is there:
// most lines have none.
func byForm(s string) string {
	if strings.Contains(s, "eyJ") {
		s = jwt.ReplaceAllString(s, Mark)
	}
	if strings.Contains(s, "LS0tLS1CRUdJTi") {
		s = pemBase64.ReplaceAllString(s, Mark)
	}
	if low := lower(s); strings.Contains(low, "bearer") || strings.Contains(low, "basic") {
		s = bearer.ReplaceAllString(s, "${1}${2}"+Mark)
	}
	if dotted(s) {
		s = bootstrap.ReplaceAllString(s, Mark)
	}
	return s
}

// dotted reports whether a text may have a bootstrap token: six letters or digits, a dot, and
// sixteen more.
func dotted(s string) bool {
	for i := 6; i < len(s)-16; i++ {
		if s[i] == '.' && plain(s[i-6:i]) && plain(s[i+1:i+17]) {
			return true
		}
	}
	return false
}

func plain(s string) bool {
	for i := range len(s) {
		if c := s[i]; (c < 'a' || c > 'z') && (c < '0' || c > '9') {
			return false
		}
	}
	return true
}
