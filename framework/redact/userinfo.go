package redact

import "strings"

// withoutUserinfo redacts the user and the password in URLs of any scheme.
func withoutUserinfo(s string) string {
	if !strings.Contains(s, "://") || !strings.Contains(s, "@") {
		return s
	}
	var b strings.Builder
	for {
		before, after, ok := strings.Cut(s, "://")
		b.WriteString(before)
		if !ok {
			return b.String()
		}
		b.WriteString("://")
		if n := userinfo(after); n > 0 {
			b.WriteString(Mark)
			after = after[n:]
		}
		s = after
	}
}

// userinfo returns how long the user and the password are in what follows the scheme of a URL.
func userinfo(s string) int {
	if i := strings.IndexAny(s, " \t\"\\<>"); i >= 0 {
		s = s[:i]
	}
	s, _, _ = strings.Cut(s, "://") // of the next one in a list
	authority := s
	if i := strings.IndexAny(s, "/?#"); i >= 0 {
		authority = s[:i]
	}
	at := strings.LastIndex(authority, "@")
	if _, port, ok := strings.Cut(authority, ":"); at < 0 && ok && !number(port) && !strings.HasPrefix(s, "[") {
		at = strings.Index(s, "@") // a password that should have been escaped
	}
	if at < 0 || strings.HasPrefix(s[at+1:], "sha256:") { // an image by its digest
		return 0
	}
	return at
}

func number(s string) bool {
	return strings.Trim(s, "0123456789") == ""
}
