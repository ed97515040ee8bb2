package client

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"math/big"
	"strings"
	"testing"
	"time"
)

// tokenOf returns a token with a signature.
func tokenOf(header, claims string, sign func(sum []byte) []byte) string {
	encode := base64.RawURLEncoding.EncodeToString
	signed := encode([]byte(header)) + "." + encode([]byte(claims))
	sum := sha256.Sum256([]byte(signed))
	return signed + "." + encode(sign(sum[:]))
}

// signature returns what a token's signature is of, and the signature.
func signature(t *testing.T, token string) (sum, signature []byte) {
	t.Helper()
	i := strings.LastIndex(token, ".")
	signature, err := base64.RawURLEncoding.DecodeString(token[i+1:])
	if err != nil {
		t.Fatal(err)
	}
	all := sha256.Sum256([]byte(token[:i]))
	return all[:], signature
}

func TestReadToken(t *testing.T) {
	none := func([]byte) []byte { return []byte("x") }
	got, err := ReadToken(tokenOf(`{"alg":"ES256","kid":"the key"}`, `{"iat":1000,"exp":4600,"sub":"x"}`, none))
	if err != nil || got.KeyID != "the key" || got.Lifetime != time.Hour {
		t.Errorf("%+v, %v", got, err)
	}
	for _, bad := range []string{"", "of-node-1", "a.b", "!.e30.x", "e30.!.x", "eA.e30.x"} {
		if got, err := ReadToken(bad); err == nil {
			t.Errorf("%q was read: %+v", bad, got)
		}
	}
}

// TestForgeToken forges tokens that differ from the originals in their signature alone.
func TestForgeToken(t *testing.T) {
	const claims = `{"iat":1000,"exp":4600}`
	elliptical, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	long, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	for alg, verified := range map[string]func(sum, signature []byte) bool{
		"ES256": func(sum, signature []byte) bool {
			return len(signature) == 64 && ecdsa.Verify(&elliptical.PublicKey, sum, new(big.Int).SetBytes(signature[:32]), new(big.Int).SetBytes(signature[32:]))
		},
		"RS256": func(sum, signature []byte) bool {
			return rsa.VerifyPKCS1v15(&long.PublicKey, crypto.SHA256, sum, signature) == nil
		},
	} {
		t.Run(alg, func(t *testing.T) {
			own := tokenOf(`{"alg":"`+alg+`","kid":"k"}`, claims, func(sum []byte) []byte {
				if alg == "RS256" {
					b, _ := rsa.SignPKCS1v15(rand.Reader, long, crypto.SHA256, sum)
					return b
				}
				r, s, _ := ecdsa.Sign(rand.Reader, elliptical, sum)
				return append(r.FillBytes(make([]byte, 32)), s.FillBytes(make([]byte, 32))...)
			})
			forged, err := ForgeToken(own)
			if err != nil {
				t.Fatal(err)
			}
			if a, b := strings.LastIndex(own, "."), strings.LastIndex(forged, "."); own[:a] != forged[:b] {
				t.Errorf("more than the signature differs: %s and %s", own, forged)
			}
			if sum, sig := signature(t, own); !verified(sum, sig) {
				t.Error("the original does not verify")
			}
			sum, forgery := signature(t, forged)
			if verified(sum, forgery) {
				t.Error("the forged token verifies")
			}
			if _, own := signature(t, own); len(own) != len(forgery) {
				t.Errorf("a signature of %d bytes, want %d", len(forgery), len(own))
			}
		})
	}
	if _, err := ForgeToken(tokenOf(`{"alg":"none"}`, claims, func([]byte) []byte { return nil })); err == nil {
		t.Error("a token of an unknown algorithm was forged")
	}
}
