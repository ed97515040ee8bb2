package workload

import (
	"fmt"
	"hash/crc32"
	"strconv"
	"strings"

	"github.com/holdfast-ha/holdfast/framework/workload/client"
)

// A large value is its name, which is unique and all that the record needs, and a filling derived
// from the name: "c0-7:4096:c0-7c0-7…". The record has "c0-7:4096".

// filled returns the text of a value of the given size; values that are already as long are
// unchanged.
func filled(name string, size int) (value, text string) {
	if size <= len(name) {
		return name, name
	}
	value = fmt.Sprintf("%s:%d", name, size)
	text = value + ":"
	if missing := size - len(text); missing > 0 {
		text += strings.Repeat(name, missing/len(name)+1)[:missing]
	}
	return value, text
}

// valueOf returns how the record stores a text. A text with an incomplete filling is stored as
// its start and its checksum: a value that no client wrote.
func valueOf(text string) string {
	name, rest, large := strings.Cut(text, ":")
	if !large {
		return text
	}
	digits, _, _ := strings.Cut(rest, ":")
	if size, err := strconv.Atoi(digits); err == nil && name != "" && size <= maxValueSize {
		if value, want := filled(name, size); want == text {
			return value
		}
	}
	return fmt.Sprintf("damaged %08x: %s", crc32.ChecksumIEEE([]byte(text)), client.Shorten(text))
}
