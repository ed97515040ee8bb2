// Package keylesstest runs a CA and a transparency log in the test's own process, for tests of
// signatures without a key.
package keylesstest

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/secure-systems-lab/go-securesystemslib/dsse"
	"github.com/sigstore/sigstore-go/pkg/root"
	"github.com/sigstore/sigstore-go/pkg/testing/ca"
	"github.com/sigstore/sigstore-go/pkg/tlog"
)

// Issuer is the OpenID Connect issuer that certificates name.
const Issuer = "https://accounts.example.com"

// Services are a CA and a transparency log. The CA accepts any token.
type Services struct {
	root, intermediate *x509.Certificate
	key                crypto.Signer
	log                *ca.VirtualSigstore
	url                string
}

// New starts services until the end of a test.
func New(t testing.TB) *Services {
	s := &Services{}
	log, err := ca.NewVirtualSigstore()
	if err != nil {
		t.Fatal(err)
	}
	s.log = log
	rootCert, rootKey, err := ca.GenerateRootCa()
	if err != nil {
		t.Fatal(err)
	}
	s.root = rootCert
	if s.intermediate, s.key, err = ca.GenerateFulcioIntermediate(rootCert, rootKey); err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /api/v2/signingCert", s.answer(http.StatusOK, s.certify))
	mux.HandleFunc("POST /api/v1/log/entries", s.answer(http.StatusCreated, s.append))
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	s.url = server.URL
	return s
}

func (s *Services) answer(status int, make func(r *http.Request) (any, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		answer, err := make(r)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("ETag", "entry")
		w.Header().Set("Location", "/api/v1/log/entries/entry")
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(answer)
	}
}

// certify returns a certificate of the client's key for the identity in its token.
func (s *Services) certify(r *http.Request) (any, error) {
	token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !ok {
		return nil, fmt.Errorf("no token")
	}
	claims, err := base64.RawURLEncoding.DecodeString(strings.Split(token, ".")[1])
	if err != nil {
		return nil, err
	}
	var who struct{ Email string }
	if err := json.Unmarshal(claims, &who); err != nil {
		return nil, err
	}
	var asked struct {
		PublicKeyRequest struct {
			PublicKey         struct{ Content string }
			ProofOfPossession []byte
		}
	}
	if err := json.NewDecoder(r.Body).Decode(&asked); err != nil {
		return nil, err
	}
	block, _ := pem.Decode([]byte(asked.PublicKeyRequest.PublicKey.Content))
	key, err := x509.ParsePKIXPublicKey(block.Bytes)
	if err != nil {
		return nil, err
	}
	if sum := sha256.Sum256([]byte(who.Email)); !ecdsa.VerifyASN1(key.(*ecdsa.PublicKey), sum[:], asked.PublicKeyRequest.ProofOfPossession) {
		return nil, fmt.Errorf("the key is another's")
	}
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: big.NewInt(1), EmailAddresses: []string{who.Email}, NotBefore: time.Now().Add(-time.Minute), NotAfter: time.Now().Add(10 * time.Minute),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageCodeSigning},
		ExtraExtensions: []pkix.Extension{{Id: asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 57264, 1, 1}, Value: []byte(Issuer)}},
	}, s.intermediate, key, s.key)
	if err != nil {
		return nil, err
	}
	chain := []string{string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})), string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.intermediate.Raw}))}
	return map[string]any{"signedCertificateEmbeddedSct": map[string]any{"chain": map[string]any{"certificates": chain}}}, nil
}

// append adds a signature to the log.
func (s *Services) append(r *http.Request) (any, error) {
	var proposed struct {
		Spec struct {
			ProposedContent struct {
				Envelope  string
				Verifiers [][]byte
			}
		}
	}
	if err := json.NewDecoder(r.Body).Decode(&proposed); err != nil {
		return nil, err
	}
	var envelope dsse.Envelope
	if err := json.Unmarshal([]byte(proposed.Spec.ProposedContent.Envelope), &envelope); err != nil {
		return nil, err
	}
	block, _ := pem.Decode(proposed.Spec.ProposedContent.Verifiers[0])
	leaf, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return nil, err
	}
	signature, err := base64.StdEncoding.DecodeString(envelope.Signatures[0].Sig)
	if err != nil {
		return nil, err
	}
	entry, err := s.log.GenerateTlogEntry(leaf, &envelope, signature, time.Now().Unix(), true)
	if err != nil {
		return nil, err
	}
	body, ok := entry.Body().(string)
	if !ok {
		return nil, fmt.Errorf("an entry of type %T", entry.Body())
	}
	payload := tlog.RekorPayload{Body: body, IntegratedTime: entry.IntegratedTime().Unix(), LogIndex: entry.LogIndex(), LogID: hex.EncodeToString([]byte(entry.LogKeyID()))}
	promise, err := s.log.RekorSignPayload(payload)
	if err != nil {
		return nil, err
	}
	raw, err := base64.StdEncoding.DecodeString(body)
	if err != nil {
		return nil, err
	}
	proof, err := s.log.GetInclusionProof(raw)
	if err != nil {
		return nil, err
	}
	return map[string]any{"entry": map[string]any{"body": body, "integratedTime": payload.IntegratedTime, "logIndex": payload.LogIndex, "logID": payload.LogID,
		"verification": map[string]any{"signedEntryTimestamp": promise, "inclusionProof": map[string]any{
			"checkpoint": *proof.Checkpoint, "hashes": append([]string{}, proof.Hashes...), "logIndex": *proof.LogIndex, "rootHash": *proof.RootHash, "treeSize": *proof.TreeSize,
		}}}}, nil
}

// Token returns a token of the issuer for an email address.
func Token(email string) string {
	part := func(text string) string { return base64.RawURLEncoding.EncodeToString([]byte(text)) }
	return part(`{"alg":"none"}`) + "." + part(`{"iss":"`+Issuer+`","email":"`+email+`","email_verified":true}`) + "."
}

func write(t testing.TB, name string, v json.Marshaler) string {
	text, err := v.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, bytes.TrimSpace(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// TrustedRoot returns a file with the keys of the services.
func (s *Services) TrustedRoot(t testing.TB) string {
	authority := &root.FulcioCertificateAuthority{Root: s.root, Intermediates: []*x509.Certificate{s.intermediate}, URI: s.url,
		ValidityPeriodStart: time.Now().Add(-time.Hour), ValidityPeriodEnd: time.Now().Add(time.Hour)}
	logs := s.log.RekorLogs()
	for id, log := range logs {
		raw, err := hex.DecodeString(id)
		if err != nil {
			t.Fatal(err)
		}
		log.ID = raw // the format of the file
	}
	r, err := root.NewTrustedRoot(root.TrustedRootMediaType01, []root.CertificateAuthority{authority}, nil, nil, logs)
	if err != nil {
		t.Fatal(err)
	}
	return write(t, "trusted_root.json", r)
}

// SigningConfig returns a file with the addresses of the services.
func (s *Services) SigningConfig(t testing.TB) string {
	service := root.Service{URL: s.url, MajorAPIVersion: 1, ValidityPeriodStart: time.Now().Add(-time.Hour), ValidityPeriodEnd: time.Now().Add(time.Hour), Operator: "tests"}
	c, err := root.NewSigningConfig(root.SigningConfigMediaType02, []root.Service{service}, nil, []root.Service{service}, root.ServiceConfiguration{Selector: 1, Count: 1}, nil, root.ServiceConfiguration{})
	if err != nil {
		t.Fatal(err)
	}
	return write(t, "signing_config.json", c)
}
