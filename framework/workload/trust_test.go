package workload

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"math/big"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/holdfast-ha/holdfast/framework/workload/apitest"
)

// TestTrustTokens shows that the first token, and a copy of it that another key signed, are used
// again at each look.
func TestTrustTokens(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	var issued atomic.Int64
	issue := func() string {
		encode := base64.RawURLEncoding.EncodeToString
		signed := encode([]byte(`{"alg":"ES256","kid":"one"}`)) + "." + encode(fmt.Appendf(nil, `{"iat":1000,"exp":4600,"jti":"%d"}`, issued.Add(1)))
		sum := sha256.Sum256([]byte(signed))
		r, s, _ := ecdsa.Sign(rand.Reader, key, sum[:])
		return signed + "." + encode(append(r.FillBytes(make([]byte, 32)), s.FillBytes(make([]byte, 32))...))
	}
	verifies := func(token string) bool {
		i := strings.LastIndex(token, ".")
		signature, err := base64.RawURLEncoding.DecodeString(token[i+1:])
		sum := sha256.Sum256([]byte(token[:max(i, 0)]))
		return err == nil && len(signature) == 64 &&
			ecdsa.Verify(&key.PublicKey, sum[:], new(big.Int).SetBytes(signature[:32]), new(big.Int).SetBytes(signature[32:]))
	}
	c := apitest.New(t, 2)
	for i := range 2 {
		c.Server(i).Hook(func(w http.ResponseWriter, r *http.Request) bool {
			switch {
			case strings.HasSuffix(r.URL.Path, "/token"):
				fmt.Fprintf(w, `{"status":{"token":%q}}`, issue())
			case strings.HasSuffix(r.URL.Path, "/selfsubjectreviews") && !verifies(strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")):
				apitest.Fail(w, http.StatusUnauthorized, "Unauthorized", "Unauthorized")
			case strings.HasSuffix(r.URL.Path, "/selfsubjectreviews"):
				fmt.Fprint(w, `{"status":{"userInfo":{"username":"system:serviceaccount:holdfast:x"}}}`)
			default:
				return false
			}
			return true
		})
	}
	w, read := recording(t)
	var trust Trust
	for range 2 {
		if err := trust.tokens(t.Context(), apiServers(c.Entrances()), w); err != nil {
			t.Fatal(err)
		}
	}
	got := map[string]int{}
	for _, o := range read().Ops {
		got[o.V.Key+": "+string(o.V.Outcome)+" "+o.V.Value]++
	}
	want := map[string]int{
		"issue: ok issued by key one for 3600s":             4,
		"token/node-1: ok system:serviceaccount:holdfast:x": 4,
		"token/node-2: ok system:serviceaccount:holdfast:x": 4,
		"token/first: ok system:serviceaccount:holdfast:x":  4,
		"token/forged: refused Unauthorized":                4,
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%v, want %v", got, want)
	}
}
