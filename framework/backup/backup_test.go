package backup

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfast-ha/holdfast/framework/workload/etcdtest"
)

func TestVerify(t *testing.T) {
	t.Parallel()
	c := etcdtest.New(t, 1)
	file := filepath.Join(t.TempDir(), "snapshot")
	if _, err := Save(t.Context(), c, "node-1", file); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		bytes []byte
		says  string
	}{
		"cut short": {whole[:len(whole)-100], "cut short"},
		"changed":   {append(append([]byte{}, whole[:999]...), append([]byte{whole[999] ^ 1}, whole[1000:]...)...), "checksum"},
		"empty":     {nil, "cut short"},
	} {
		if err := os.WriteFile(file, test.bytes, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Verify(file); err == nil || !strings.Contains(err.Error(), test.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
