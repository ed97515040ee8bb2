package system

import (
	"encoding/json"
	"os"
)

// ReadJSON reads a file of JSON.
func ReadJSON(path string, into any) error {
	b, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(b, into)
	}
	return err
}

// WriteJSON writes a file of JSON for this user alone. A reader finds its old content or the new one.
func WriteJSON(path string, what any) error {
	b, err := json.Marshal(what)
	if err == nil {
		err = ReplaceFile(path, b, 0o600, false)
	}
	return err
}
