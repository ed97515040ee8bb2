package client

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"k8s.io/client-go/rest"
)

// TokenRequest is the body of a request to an account's token, of a token for an hour.
func TokenRequest() []byte {
	return []byte(`{"apiVersion":"authentication.k8s.io/v1","kind":"TokenRequest","spec":{"expirationSeconds":3600}}`)
}

// IssuedToken returns the token in the answer to a TokenRequest.
func IssuedToken(answer []byte) (string, error) {
	var issued struct{ Status struct{ Token string } }
	if err := json.Unmarshal(answer, &issued); err != nil || issued.Status.Token == "" {
		return "", fmt.Errorf("the API server answered without a token: %s", Shorten(string(answer)))
	}
	return issued.Status.Token, nil
}

// WithToken returns the configuration of a client that has only a token.
func WithToken(config *rest.Config, token string) *rest.Config {
	config = rest.AnonymousClientConfig(config)
	config.BearerToken = token
	return config
}

// TokenInfo is what a token of a service account, a JSON Web Token, says about itself.
type TokenInfo struct {
	// KeyID names the key that signed it.
	KeyID string
	// Lifetime is how long after its issue it is valid.
	Lifetime time.Duration

	algorithm string
}

// ReadToken returns what a token says about itself. It does not verify the signature.
func ReadToken(token string) (TokenInfo, error) {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return TokenInfo{}, fmt.Errorf("failed to read a token: it has %d parts, not 3", len(parts))
	}
	var header struct{ Alg, Kid string }
	var claims struct{ Iat, Exp int64 }
	for i, into := range []any{&header, &claims} {
		b, err := base64.RawURLEncoding.DecodeString(parts[i])
		if err == nil {
			err = json.Unmarshal(b, into)
		}
		if err != nil {
			return TokenInfo{}, fmt.Errorf("failed to read a token: %w", err)
		}
	}
	return TokenInfo{KeyID: header.Kid, Lifetime: time.Duration(claims.Exp-claims.Iat) * time.Second, algorithm: header.Alg}, nil
}

// ForgeToken returns the token with the signature of a key that was made for it: everything else,
// also the ID of the key, is as in the original.
func ForgeToken(token string) (string, error) {
	info, err := ReadToken(token)
	if err != nil {
		return "", err
	}
	signed := token[:strings.LastIndex(token, ".")]
	sum := sha256.Sum256([]byte(signed))
	var signature []byte
	switch info.algorithm {
	case "ES256":
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			return "", fmt.Errorf("failed to forge a token: %w", err)
		}
		r, s, err := ecdsa.Sign(rand.Reader, key, sum[:])
		if err != nil {
			return "", fmt.Errorf("failed to forge a token: %w", err)
		}
		signature = make([]byte, 64)
		r.FillBytes(signature[:32])
		s.FillBytes(signature[32:])
	case "RS256":
		key, err := rsa.GenerateKey(rand.Reader, 2048)
		if err != nil {
			return "", fmt.Errorf("failed to forge a token: %w", err)
		}
		if signature, err = rsa.SignPKCS1v15(rand.Reader, key, crypto.SHA256, sum[:]); err != nil {
			return "", fmt.Errorf("failed to forge a token: %w", err)
		}
	default:
		return "", fmt.Errorf("failed to forge a token: it is signed with %q, and only ES256 and RS256 are supported", info.algorithm)
	}
	return signed + "." + base64.RawURLEncoding.EncodeToString(signature), nil
}
