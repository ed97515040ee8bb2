package workload

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/holdfast-ha/holdfast/framework/workload/apitest"
)

func TestTokens(t *testing.T) {
	c := apitest.New(t, 3)
	for i := range 3 {
		s := c.Server(i)
		s.Hook(func(w http.ResponseWriter, r *http.Request) bool {
			switch {
			case strings.HasSuffix(r.URL.Path, "/token"):
				fmt.Fprintf(w, `{"status":{"token":"of-%s"}}`, s.Name)
			case strings.HasSuffix(r.URL.Path, "/selfsubjectreviews") && s.Name == "node-3" && r.Header.Get("Authorization") == "Bearer of-node-1":
				w.WriteHeader(http.StatusUnauthorized)
				fmt.Fprint(w, `{"kind":"Status","status":"Failure","reason":"Unauthorized","code":401}`)
			case strings.HasSuffix(r.URL.Path, "/selfsubjectreviews"):
				fmt.Fprint(w, `{"status":{"userInfo":{"username":"system:serviceaccount:holdfast:x"}}}`)
			default:
				return false
			}
			return true
		})
	}
	w, read := recording(t)
	if err := Tokens(t.Context(), c, w); err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, o := range read().Ops {
		got[o.V.Key+" at "+o.V.Entrance] = string(o.V.Outcome) + " " + o.V.Value
	}
	if len(got) != 9 || got["node-1 at node-3"] != "refused Unauthorized" || got["node-2 at node-2"] != "ok issued" ||
		got["node-3 at node-1"] != "ok system:serviceaccount:holdfast:x" {
		t.Errorf("%v", got)
	}
}
