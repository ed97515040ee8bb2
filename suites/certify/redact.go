package certify

import (
	"bytes"

	"github.com/holdfast-ha/holdfast/framework/redact"
)

// redactor removes secrets from the logs that go into a bundle. Records have none: their writer
// removes them.
type redactor struct{ *redact.Redactor }

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
