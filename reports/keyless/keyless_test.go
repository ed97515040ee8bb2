package keyless

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfast-ha/holdfast/reports/bundle"
	"github.com/holdfast-ha/holdfast/reports/keyless/keylesstest"
)

const identity, issuer = "ci@example.com", keylesstest.Issuer

// Verify accepts, offline, only what the identity signed: not another file, another identity or
// issuer, services that the reader does not trust, or an altered signature.
func TestSign(t *testing.T) {
	s := keylesstest.New(t)
	file := filepath.Join(t.TempDir(), "bundle.tar")
	if err := os.WriteFile(file, []byte("a bundle"), 0o644); err != nil {
		t.Fatal(err)
	}
	trusted := s.TrustedRoot(t)
	if _, err := Verify(file, trusted, identity, issuer); err == nil || !strings.Contains(err.Error(), "was not signed with holdfast certify sign") {
		t.Errorf("without a signature: %v", err)
	}
	predicate := bundle.Predicate{Name: "test-result", Type: "https://in-toto.io/attestation/test-result/v0.1", Body: map[string]any{"result": "PASSED"}}
	if err := Sign(t.Context(), file, predicate, s.SigningConfig(t), keylesstest.Token(identity)); err != nil {
		t.Fatal(err)
	}
	stated, err := Verify(file, trusted, identity, issuer)
	if err != nil {
		t.Fatal(err)
	}
	var body map[string]any
	if err := json.Unmarshal(stated.Body.(json.RawMessage), &body); err != nil || stated.Type != predicate.Type || !maps.Equal(body, predicate.Body.(map[string]any)) {
		t.Errorf("it states %v of type %s, %v; want %v", body, stated.Type, err, predicate)
	}
	signed, err := os.ReadFile(file + Suffix)
	if err != nil {
		t.Fatal(err)
	}
	other := keylesstest.New(t)
	for name, test := range map[string]struct {
		change                    func() error
		trusted, identity, issuer string
		want                      string
	}{
		"another identity": {nil, trusted, "someone@example.com", issuer, "someone@example.com"},
		"another issuer":   {nil, trusted, identity, "https://other.example.com", "other.example.com"},
		"other services":   {nil, other.TrustedRoot(t), identity, issuer, "does not show"},
		"no trusted root":  {nil, file, identity, issuer, "failed to read the trusted root"},
		"another file":     {func() error { return os.WriteFile(file, []byte("a bundlE"), 0o644) }, trusted, identity, issuer, "does not show"},
		"another signature": {func() error {
			return Sign(t.Context(), file, predicate, other.SigningConfig(t), keylesstest.Token(identity))
		}, trusted, identity, issuer, "does not show"},
		"a statement altered": {func() error {
			return os.WriteFile(file+Suffix, bytes.Replace(signed, []byte(`"payload":"e`), []byte(`"payload":"f`), 1), 0o644)
		}, trusted, identity, issuer, "does not show"},
	} {
		for path, text := range map[string][]byte{file: []byte("a bundle"), file + Suffix: signed} {
			if err := os.WriteFile(path, text, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if test.change != nil {
			if err := test.change(); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := Verify(file, test.trusted, test.identity, test.issuer); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %q", name, err, test.want)
		}
	}
}

// Sign reports a refusal of the services or unusable inputs, and leaves no signature.
func TestSignRefused(t *testing.T) {
	s := keylesstest.New(t)
	file := filepath.Join(t.TempDir(), "bundle.tar")
	if err := os.WriteFile(file, []byte("a bundle"), 0o644); err != nil {
		t.Fatal(err)
	}
	empty := filepath.Join(t.TempDir(), "signing_config.json")
	if err := os.WriteFile(empty, []byte(`{"mediaType": "application/vnd.dev.sigstore.signingconfig.v0.2+json"}`), 0o644); err != nil {
		t.Fatal(err)
	}
	p := bundle.Predicate{Name: "x", Type: "https://example.com/x", Body: map[string]any{}}
	for name, test := range map[string]struct{ file, config, token, want string }{
		"no token":           {file, s.SigningConfig(t), "", "IDToken"},
		"no services":        {file, empty, keylesstest.Token(identity), "no CA"},
		"no signing config":  {file, file, keylesstest.Token(identity), "failed to read the signing config"},
		"no file to be read": {file + ".nowhere", s.SigningConfig(t), keylesstest.Token(identity), "failed to sign"},
	} {
		if err := Sign(t.Context(), test.file, p, test.config, test.token); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %q", name, err, test.want)
		}
		if _, err := os.Stat(test.file + Suffix); err == nil {
			t.Errorf("%s: there is a signature", name)
		}
	}
}
