package remote

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"testing"

	"github.com/holdfast-ha/holdfast/framework"
)

// A node reports the profile by which its components were found: its name, and the digest of its
// file, so that a changed profile is another one.
func TestDistribution(t *testing.T) {
	text, err := embedded.ReadFile("profiles/kubeadm.yaml")
	if err != nil {
		t.Fatal(err)
	}
	own, changed := filepath.Join(t.TempDir(), "kubeadm.yaml"), filepath.Join(t.TempDir(), "mine.yaml")
	for file, text := range map[string][]byte{own: text, changed: append(bytes.Clone(text), "# changed\n"...)} {
		if err := os.WriteFile(file, text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	of := func(text []byte) string { sum := sha256.Sum256(text); return hex.EncodeToString(sum[:]) }
	for name, want := range map[string]framework.Distribution{
		"kubeadm": {Name: "kubeadm", Digest: of(text)},
		own:       {Name: "kubeadm", Digest: of(text)},
		changed:   {Name: "mine", Digest: of(append(bytes.Clone(text), "# changed\n"...))},
	} {
		p, err := profileOf(name)
		if err != nil {
			t.Fatal(err)
		}
		if got := (&node{found: &found{profile: p}}).Distribution(); got != want {
			t.Errorf("%s: %+v, want %+v", name, got, want)
		}
	}
}
