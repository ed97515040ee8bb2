package workload

import (
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-ha/holdfast/framework/record"
	"github.com/holdfast-ha/holdfast/framework/workload/apitest"
)

// mixedLease returns an object of a kind that the stand-in for API servers serves.
func mixedLease() map[string]any {
	return map[string]any{"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "spec": map[string]any{"holderIdentity": "mixed"}}
}

const undecoded = `no kind "Lease" is registered for version "coordination.k8s.io/v2"`

// Only the answer that the path does not exist shows that an API server does not serve a kind.
func TestMixedServed(t *testing.T) {
	for _, tc := range []struct {
		name   string
		fails  int32 // how many lists through the second API server fail
		status int
		reason string
		served bool
		lists  int32  // through the second API server, at least
		says   string // the error of the operation, which is the only one; empty for none
	}{
		{name: "served", served: true, lists: 1},
		{"not served", math.MaxInt32, 404, "NotFound", false, 1, ""},
		{"two failures", 2, 500, "InternalError", true, 3, ""},
		{"shuts down at first", 1, 503, "ServiceUnavailable", true, 2, ""},
		{"too many requests at first", 1, 429, "TooManyRequests", true, 2, ""},
		{"fails for ever", math.MaxInt32, 500, "", false, 2, "status 500 (): " + undecoded},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := apitest.NewInMemory(t, 2)
				var lists atomic.Int32
				c.Server(1).Hook(func(w http.ResponseWriter, r *http.Request) bool {
					if lists.Add(1) > tc.fails {
						return false
					}
					apitest.Fail(w, tc.status, tc.reason, undecoded)
					return true
				})
				w, read := recording(t)
				m, err := newMixed(t.Context(), c, w)
				if err != nil {
					t.Fatal(err)
				}
				defer m.close()
				if tc.says != "" {
					m.limit = time.Second
				}
				if served := m.served(t.Context(), mixedLease()); served != tc.served {
					t.Errorf("served: %t", served)
				}
				if n := lists.Load(); n < tc.lists || tc.status == 404 && n > tc.lists {
					t.Errorf("%d lists through the second API server, want %d", n, tc.lists)
				}
				ops := read().Ops
				if tc.says == "" && len(ops) > 0 || tc.says != "" && len(ops) != 1 {
					t.Fatalf("operations: %+v", ops)
				}
				for _, o := range ops {
					if op := o.V; op.Entrance != "node-2" || op.Type != record.OpGet || op.Key != "Lease/" || op.Outcome != record.Unknown || op.Error != tc.says || op.Purpose != mixedPurpose {
						t.Errorf("%+v", op)
					}
				}
			})
		})
	}
}

// TestMixedPass passes an object from the first of three API servers to the other two.
func TestMixedPass(t *testing.T) {
	get := func(node, outcome string) string { return "get " + node + " " + outcome }
	const created, patched2, patched3 = "create node-1 ok", "patch node-2 ok", "patch node-3 ok"
	fails := func(w http.ResponseWriter) {
		apitest.Fail(w, 500, "", undecoded)
	}
	ok1, ok2, ok3, failed := get("node-1", "ok"), get("node-2", "ok"), get("node-3", "ok"), get("node-2", "unknown")
	for _, tc := range []struct {
		name string
		// answers answers the n-th request of a method through the second API server for that
		// object, or returns false for the usual answer.
		answers func(c *apitest.Cluster, w http.ResponseWriter, r *http.Request, n int) bool
		want    []string // operations on that object
	}{
		{"all is answered", func(*apitest.Cluster, http.ResponseWriter, *http.Request, int) bool { return false },
			[]string{created, ok2, patched2, ok1, ok3, patched3, ok1}},
		{"a read fails once", func(_ *apitest.Cluster, w http.ResponseWriter, r *http.Request, n int) bool {
			if r.Method != http.MethodGet || n > 1 {
				return false
			}
			fails(w)
			return true
		}, []string{created, failed, ok2, patched2, ok1, ok3, patched3, ok1}},
		{"a change fails once", func(_ *apitest.Cluster, w http.ResponseWriter, r *http.Request, n int) bool {
			if r.Method != http.MethodPatch || n > 1 {
				return false
			}
			fails(w)
			return true
		}, []string{created, ok2, "patch node-2 unknown", patched2, ok1, ok3, patched3, ok1}},
		{"reads fail", func(_ *apitest.Cluster, w http.ResponseWriter, r *http.Request, _ int) bool {
			if r.Method != http.MethodGet {
				return false
			}
			fails(w)
			return true
		}, []string{created, failed, failed, failed, failed, failed, patched2, ok1, ok3, patched3, ok1}},
		{"a change is one too many", func(_ *apitest.Cluster, w http.ResponseWriter, r *http.Request, _ int) bool {
			if r.Method != http.MethodPatch {
				return false
			}
			apitest.Fail(w, 429, "TooManyRequests", "try again later")
			return true
		}, append([]string{created, ok2}, slices.Repeat([]string{"patch node-2 refused"}, stepTries)...)},
		{"a change is not made", func(_ *apitest.Cluster, w http.ResponseWriter, r *http.Request, _ int) bool {
			if r.Method != http.MethodPatch {
				return false
			}
			apitest.Fail(w, 503, "ServiceUnavailable", "apiserver is shutting down")
			return true
		}, append([]string{created, ok2}, slices.Repeat([]string{"patch node-2 unknown"}, stepTries)...)},
		{"a change is made and not answered", func(c *apitest.Cluster, _ http.ResponseWriter, r *http.Request, _ int) bool {
			if r.Method != http.MethodPatch {
				return false
			}
			c.Server(0).ServeHTTP(httptest.NewRecorder(), r)
			panic(http.ErrAbortHandler)
		}, append([]string{created, ok2}, slices.Repeat([]string{"patch node-2 unknown"}, stepTries)...)},
		{"a change loses a field", func(c *apitest.Cluster, w http.ResponseWriter, r *http.Request, _ int) bool {
			if r.Method != http.MethodPatch {
				return false
			}
			answer := httptest.NewRecorder()
			c.Server(0).ServeHTTP(answer, r)
			_, _ = fmt.Fprint(w, strings.Replace(answer.Body.String(), `"holderIdentity":"mixed"`, "", 1))
			return true
		}, []string{created, ok2, patched2 + `: spec.holderIdentity is null, not "mixed"`, ok1, ok3, patched3, ok1}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := apitest.NewInMemory(t, 3)
				var gets, patches atomic.Int32
				c.Server(1).Hook(func(w http.ResponseWriter, r *http.Request) bool {
					n := &gets
					if r.Method == http.MethodPatch {
						n = &patches
					}
					return strings.Contains(r.URL.Path, "/mixed-0-") && tc.answers(c, w, r, int(n.Add(1)))
				})
				w, read := recording(t)
				m, err := newMixed(t.Context(), c, w)
				if err != nil {
					t.Fatal(err)
				}
				defer m.close()
				m.pass(t.Context(), mixedLease())
				var got []string
				for _, o := range read().Ops {
					if op := o.V; strings.HasPrefix(op.Key, "Lease/mixed-0-") {
						text := fmt.Sprintf("%s %s %s", op.Type, op.Entrance, op.Outcome)
						if op.Value != "" {
							text += ": " + op.Value
						}
						got = append(got, text)
					}
				}
				if !slices.Equal(got, tc.want) {
					t.Errorf("%q, want %q", got, tc.want)
				}
			})
		})
	}
}
