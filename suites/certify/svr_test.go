package certify

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/secure-systems-lab/go-securesystemslib/dsse"

	"github.com/holdfast-ha/holdfast/reports/bundle"
)

// svr is a simple verification result, as another program reads it.
type svr struct {
	Type    string `json:"_type"`
	Subject []struct {
		Name   string            `json:"name"`
		Digest map[string]string `json:"digest"`
	} `json:"subject"`
	PredicateType string `json:"predicateType"`
	Predicate     struct {
		Verifier    struct{ ID string } `json:"verifier"`
		TimeCreated time.Time           `json:"timeCreated"`
		Properties  []string            `json:"properties"`
	} `json:"predicate"`
}

// payload returns the payload of the envelope in a file if the signature of a key holds.
func payload(t *testing.T, file string, key *bundle.Key) ([]byte, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var e dsse.Envelope
	if err := json.Unmarshal(text, &e); err != nil {
		t.Fatal(err)
	}
	if e.PayloadType != "application/vnd.in-toto+json" || len(e.Signatures) != 1 || e.Signatures[0].KeyID != key.ID {
		t.Errorf("the envelope is of type %s, with signatures %+v", e.PayloadType, e.Signatures)
	}
	verifier, err := dsse.NewEnvelopeVerifier(key)
	if err != nil {
		t.Fatal(err)
	}
	_, body, err := verifier.VerifyAndDecode(t.Context(), &e)
	return body, err
}

// The statement of a reviewer is signed with the reviewer's key, and names the bundle by its
// digest, the verifier and the outcome.
func TestSVR(t *testing.T) {
	vendor, reviewer := testKey(t), testKey(t)
	file := newCertification(t, "HA-QR-005").bundle(t, vendor)
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(data)
	for _, test := range []struct {
		certified bool
		want      []string
	}{
		{false, []string{"HOLDFAST_BUNDLE_VERIFIED"}},
		{true, []string{"HOLDFAST_BUNDLE_VERIFIED", "HOLDFAST_CERTIFIED_partial"}},
	} {
		v, err := Verify(file, vendor, nil)
		if err != nil || !v.Holds() || v.Outcome.Certified {
			t.Fatalf("%+v, %v", v, err)
		}
		v.Outcome.Certified = test.certified
		before := time.Now().Truncate(time.Second)
		to, err := v.Sign(file, "v1.2.3", reviewer)
		if err != nil || to != file+".svr.dsse.json" {
			t.Fatal(to, err)
		}
		text, err := payload(t, to, reviewer)
		if err != nil {
			t.Fatalf("the signature does not hold: %v", err)
		}
		var s svr
		if err := json.Unmarshal(text, &s); err != nil {
			t.Fatal(err)
		}
		if s.Type != "https://in-toto.io/Statement/v1" || s.PredicateType != "https://in-toto.io/attestation/svr/v0.1" {
			t.Errorf("%s, %s", s.Type, s.PredicateType)
		}
		if len(s.Subject) != 1 || s.Subject[0].Name != BundleFile || len(s.Subject[0].Digest) != 1 || s.Subject[0].Digest["sha256"] != hex.EncodeToString(sum[:]) {
			t.Errorf("subject %+v, want %s with SHA-256 digest %x", s.Subject, BundleFile, sum)
		}
		if got := s.Predicate; got.Verifier.ID != "https://holdfast.dev/verify/v1.2.3" || !slices.Equal(got.Properties, test.want) ||
			got.TimeCreated.Before(before) || got.TimeCreated.After(time.Now()) {
			t.Errorf("%+v, want properties %q", got, test.want)
		}
	}

	// A changed statement, and a bundle that does not hold.
	text, err := os.ReadFile(file + SVRSuffix)
	if err != nil {
		t.Fatal(err)
	}
	var e dsse.Envelope
	if err := json.Unmarshal(text, &e); err != nil {
		t.Fatal(err)
	}
	e.Payload = e.Payload[:len(e.Payload)-4] + "AAAA"
	forged := filepath.Join(t.TempDir(), "forged")
	if text, err = json.Marshal(e); err != nil || os.WriteFile(forged, text, 0o644) != nil {
		t.Fatal(err)
	}
	if body, err := payload(t, forged, reviewer); err == nil {
		t.Errorf("the signature holds for %q", body)
	}
	v, err := Verify(file, testKey(t), nil)
	if err != nil || v.Holds() {
		t.Fatalf("%+v, %v", v, err)
	}
	if to, err := v.Sign(file, "v1.2.3", reviewer); err == nil {
		t.Errorf("a bundle that does not hold is signed in %s", to)
	}
}
