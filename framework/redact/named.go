package redact

import (
	"regexp"
	"slices"
	"strings"
)

// words are at the start or end of a secret's name, in lower case.
var words = []string{"token", "password", "passwd", "passphrase", "secret", "credential", "client-key-data",
	"apikey", "api-key", "api_key", "accesskey", "access-key", "access_key", "privatekey", "private-key", "private_key",
	"encryptionkey", "encryption-key", "encryption_key"}

// parts are parts of words: a text without any of them has no name of a secret.
var parts = []string{"token", "passw", "passp", "secret", "credential", "key"}

// otherName matches names with such a word that say where the secret is, or something else of it;
// and files of source, as a log names them before a line's number.
var otherName = regexp.MustCompile(`(?i)(file|path|dir|url|ttl|duration|expiration|endpoint|issuer|audience|name|namespace|strategy|\.go)s?$`)

// separator matches what is between a name and its value.
var separator = regexp.MustCompile(`^\\*["']?(?:\s*[:=]\s*|[\s,]\s*)`)

// Secret reports whether a flag or variable of that name has a secret as its value.
func Secret(name string) bool {
	_, _, found := newFinder(name).after(0)
	return found && strings.IndexFunc(name, func(c rune) bool { return c > 0x7f || !inNames(byte(c)) }) < 0 && !otherName.MatchString(name)
}

// finder finds the words in a text, in order.
type finder struct {
	low  string // the text in lower case
	next []int  // where each word is next; nil if the text has none
}

func newFinder(s string) *finder {
	f := &finder{low: lower(s)}
	if slices.ContainsFunc(parts, func(p string) bool { return strings.Contains(f.low, p) }) {
		f.next = make([]int, len(words))
		for i := range words {
			f.find(i, 0)
		}
	}
	return f
}

func (f *finder) find(word, from int) {
	f.next[word] = len(f.low)
	if i := strings.Index(f.low[from:], words[word]); i >= 0 {
		f.next[word] = from + i
	}
}

// after returns where the first word is from an index on.
func (f *finder) after(from int) (begin, end int, found bool) {
	begin = len(f.low)
	for i, next := range f.next {
		if next < from {
			f.find(i, from)
		}
		if f.next[i] < begin {
			begin, end, found = f.next[i], f.next[i]+len(words[i]), true
		}
	}
	return begin, end, found
}

// lower returns a text with its ASCII letters in lower case, and of the same length.
func lower(s string) string {
	b := []byte(s)
	for i, c := range b {
		if c >= 'A' && c <= 'Z' {
			b[i] = c + 'a' - 'A'
		}
	}
	return string(b)
}

// byName redacts the values of secrets by their names: assigned to them in YAML, JSON or a
// variable, or following a flag.
func byName(s string) string {
	f := newFinder(s)
	if f.next == nil {
		return s
	}
	var b strings.Builder
	done := 0
	for {
		begin, end, found := f.after(done)
		if !found {
			b.WriteString(s[done:])
			return b.String()
		}
		for begin > done && inNames(s[begin-1]) {
			begin--
		}
		for end < len(s) && inNames(s[end]) {
			end++
		}
		from, to := valueOf(s, begin, end)
		b.WriteString(s[done:from])
		if from < to && !harmless(s[from:to]) {
			b.WriteString(Mark)
			from = to
		}
		done = from
	}
}

// valueOf returns where the value of the name between two indices begins and ends: both are the
// end of the name if it has none, or if it is not a secret.
func valueOf(s string, begin, end int) (from, to int) {
	name, gap := s[begin:end], separator.FindString(s[end:])
	assigned := strings.ContainsAny(gap, ":=")
	if gap == "" || otherName.MatchString(name) || !assigned && !strings.HasPrefix(name, "-") {
		return end, end
	}
	from, to = value(s, end+len(gap))
	if !assigned && from < len(s) && s[from] == '-' { // the next flag
		return end, end
	}
	return from, to
}

func inNames(c byte) bool {
	return c == '-' || c == '_' || c == '.' || c >= '0' && c <= '9' || c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z'
}

// harmless reports whether a value is not a secret: it was redacted before, is a switch or no
// value, or only begins a structure.
func harmless(v string) bool {
	switch v {
	case Mark, strings.Trim(Mark, "[]"), strings.TrimSuffix(Mark, "]"), "true", "false", "null", "nil", "<nil>", "{", "&{":
		return true
	}
	return false
}

// value returns where the value that starts at i begins and ends, without its quotes or brackets.
// A value whose closing quote is missing ends with the text.
func value(s string, i int) (from, to int) {
	escapes := 0
	for i+escapes < len(s) && s[i+escapes] == '\\' {
		escapes++
	}
	open := i + escapes
	if open < len(s) && (s[open] == '"' || s[open] == '\'') {
		return open + 1, closing(s, open+1, s[open], escapes)
	}
	if n := strings.IndexByte(s[i:], ']'); n > 0 && s[i] == '[' {
		return i + 1, i + n
	}
	if n := strings.IndexAny(s[i:], " \t\r\n\"',;&}\\"); n >= 0 {
		return i, i + n
	}
	return i, len(s)
}

// closing returns where the quote is that closes a value, or where the backslashes before it
// begin, if the opening one was behind that many backslashes: a quote within JSON that is itself
// a string of JSON. A quote within the value has twice as many backslashes and one more.
func closing(s string, i int, quote byte, escapes int) int {
	run := 0
	for ; i < len(s); i++ {
		switch {
		case s[i] == '\\':
			run++
			continue
		case s[i] == quote && quote == '\'' && i+1 < len(s) && s[i+1] == quote: // one quote in YAML
			i++
		case s[i] == quote && (run < escapes || (run+1)/(escapes+1)%2 == 1): // or that of the text around it
			return i - min(run, escapes)
		}
		run = 0
	}
	return len(s)
}
