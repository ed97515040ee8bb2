package retry

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	coordination "k8s.io/api/coordination/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
)

// TestAgain sends requests through the proxy to a server that answers as its list says,
// 0 for a connection that breaks.
func TestAgain(t *testing.T) {
	for name, test := range map[string]struct {
		method  string
		answers []int
		want    int
		asked   int
	}{
		"a patch that etcd had no leader for":   {http.MethodPatch, []int{500, 503, 200}, 200, 3},
		"a patch on a connection that breaks":   {http.MethodPatch, []int{0, 200}, 200, 2},
		"a patch that is forbidden for a while": {http.MethodPatch, []int{403, 200}, 200, 2},
		"a deletion that was too much":          {http.MethodDelete, []int{429, 200}, 200, 2},
		"a deletion done before":                {http.MethodDelete, []int{404}, 404, 1},
		"a patch that is wrong":                 {http.MethodPatch, []int{422}, 422, 1},
		"a patch that comes too late":           {http.MethodPatch, []int{409}, 409, 1},
		"an update, which kwok sees to itself":  {http.MethodPut, []int{500}, 500, 1},
		"a read":                                {http.MethodGet, []int{500}, 500, 1},
	} {
		t.Run(name, func(t *testing.T) {
			var mu sync.Mutex
			asked := 0
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				mu.Lock()
				defer mu.Unlock()
				if string(body) != "all of it" || r.URL.Path != "/api/v1/namespaces/n/pods/p/status" {
					t.Errorf("got %q at %s", body, r.URL.Path)
				}
				status := test.answers[asked]
				asked++
				if status == 0 {
					panic(http.ErrAbortHandler)
				}
				w.WriteHeader(status)
			}))
			defer server.Close()
			front := httptest.NewServer(through(t, server.URL))
			defer front.Close()
			r, err := http.NewRequestWithContext(t.Context(), test.method, front.URL+"/api/v1/namespaces/n/pods/p/status", strings.NewReader("all of it"))
			if err != nil {
				t.Fatal(err)
			}
			resp, err := http.DefaultClient.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			_ = resp.Body.Close()
			if resp.StatusCode != test.want || asked != test.asked {
				t.Errorf("answered %d after %d attempts, want %d after %d", resp.StatusCode, asked, test.want, test.asked)
			}
		})
	}
}

// TestRenewal renews a lease whose newest version, the seventh, a client has not seen.
func TestRenewal(t *testing.T) {
	for _, tt := range []struct {
		name, holder, version, media string
		want, renewed                int
	}{
		{"of the newest version", "kwok-1", "7", runtime.ContentTypeProtobuf, 200, 1},
		{"of an older version", "kwok-1", "5", runtime.ContentTypeProtobuf, 200, 1},
		{"of an older version, as JSON", "kwok-1", "5", runtime.ContentTypeJSON, 200, 1},
		{"of a lease that another has taken", "kwok-2", "5", runtime.ContentTypeProtobuf, 409, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			info, _ := runtime.SerializerInfoForMediaType(scheme.Codecs.SupportedMediaTypes(), tt.media)
			encode := func(holder, version string) []byte {
				b, err := runtime.Encode(scheme.Codecs.EncoderForVersion(info.Serializer, coordination.SchemeGroupVersion), &coordination.Lease{
					ObjectMeta: meta.ObjectMeta{Name: "worker-1", ResourceVersion: version},
					Spec:       coordination.LeaseSpec{HolderIdentity: &holder, LeaseDurationSeconds: new(int32(40))}})
				if err != nil {
					t.Fatal(err)
				}
				return b
			}
			stored := encode("kwok-1", "7")
			var mu sync.Mutex
			renewed := 0
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				mu.Lock()
				defer mu.Unlock()
				if r.Method == http.MethodGet {
					_, _ = w.Write(stored)
					return
				}
				body, _ := io.ReadAll(r.Body)
				lease, err := decode(body)
				if err != nil || *lease.Spec.LeaseDurationSeconds != 40 {
					t.Errorf("%+v, %v", lease, err)
				}
				if lease.ResourceVersion != "7" {
					w.WriteHeader(http.StatusConflict)
					return
				}
				renewed++
			}))
			defer server.Close()
			front := httptest.NewServer(through(t, server.URL))
			defer front.Close()
			r, err := http.NewRequestWithContext(t.Context(), http.MethodPut, front.URL+nodeLeases+"worker-1", bytes.NewReader(encode(tt.holder, tt.version)))
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("Content-Type", tt.media)
			resp, err := http.DefaultClient.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			_ = resp.Body.Close()
			if resp.StatusCode != tt.want || renewed != tt.renewed {
				t.Errorf("answered %d, renewed %d times, want %d and %d", resp.StatusCode, renewed, tt.want, tt.renewed)
			}
		})
	}
}

// TestGivenUp ends a repeated request when its sender has gone.
func TestGivenUp(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) }))
	defer server.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 250*time.Millisecond)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodDelete, server.URL, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	a := &again{carrier: http.DefaultTransport, log: log.New(io.Discard, "", 0)}
	if _, err := a.RoundTrip(r); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
}

func through(t *testing.T, server string) http.Handler {
	target, err := url.Parse(server)
	if err != nil {
		t.Fatal(err)
	}
	return proxy(target, &again{carrier: http.DefaultTransport, log: log.New(t.Output(), "", 0)})
}
