package bundle

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"os"

	"github.com/secure-systems-lab/go-securesystemslib/signerverifier"
)

// Key signs bundles, or only verifies signatures if it has no private part.
type Key struct {
	*signerverifier.ED25519SignerVerifier
	// ID identifies the key: the SHA-256 digest of its public part.
	ID string
	// PEM is the public part as a file holds it.
	PEM []byte
}

// GenerateKey returns a new Ed25519 key pair as PEM files hold them: PKCS #8 and PKIX.
func GenerateKey() (private, public []byte, err error) {
	pub, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, nil, err
	}
	public, err = publicPEM(pub)
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), public, err
}

func publicPEM(pub ed25519.PublicKey) ([]byte, error) {
	der, err := x509.MarshalPKIXPublicKey(pub)
	return pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}), err
}

// LoadKey reads a key from a PEM file, private or public, as written by GenerateKey or "openssl
// genpkey -algorithm ed25519".
func LoadKey(file string) (*Key, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("failed to read a key: %w; make a pair of keys with: holdfast keygen", err)
	}
	k, err := ParseKey(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w; make a pair of keys with: holdfast keygen", file, err)
	}
	return k, nil
}

// ParseKey is LoadKey for the text of the file.
func ParseKey(text []byte) (*Key, error) {
	loaded, err := signerverifier.LoadKey(text)
	if err != nil {
		return nil, fmt.Errorf("not a key in PEM: %w", err)
	}
	if loaded.KeyType != signerverifier.ED25519KeyType {
		return nil, fmt.Errorf("a key of type %s: want ed25519", loaded.KeyType)
	}
	pub, err := hex.DecodeString(loaded.KeyVal.Public)
	if err != nil || len(pub) != ed25519.PublicKeySize {
		return nil, errors.New("not an Ed25519 key")
	}
	k := &Key{ID: "sha256:" + digest(pub)}
	loaded.KeyID = k.ID
	if k.PEM, err = publicPEM(pub); err != nil {
		return nil, err
	}
	k.ED25519SignerVerifier, err = signerverifier.NewED25519SignerVerifierFromSSLibKey(loaded)
	return k, err
}
