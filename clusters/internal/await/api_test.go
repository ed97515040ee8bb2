package await

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"k8s.io/client-go/rest"
)

// serve returns the URL of a server.
func serve(t *testing.T, answer http.HandlerFunc) *url.URL {
	t.Helper()
	server := httptest.NewServer(answer)
	t.Cleanup(server.Close)
	at, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	return at
}

// TestProxy: requests go through the proxy of a kubeconfig.
func TestProxy(t *testing.T) {
	proxy := serve(t, func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "through the proxy to ", r.URL) })
	const at = "http://api.invalid:6443/version"
	client, err := Client(&rest.Config{Host: "http://api.invalid:6443", Proxy: http.ProxyURL(proxy)})
	if err != nil {
		t.Fatal(err)
	}
	defer client.CloseIdleConnections()
	if b, err := Request(t.Context(), client, http.MethodGet, at, ""); err != nil || string(b) != "through the proxy to "+at {
		t.Errorf("%q, error %v", b, err)
	}
}

// TestLongAnswer: an answer is read in full or not at all.
func TestLongAnswer(t *testing.T) {
	length := MaxAnswer
	at := serve(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, length)) })
	client, err := Client(&rest.Config{Host: at.String()})
	if err != nil {
		t.Fatal(err)
	}
	defer client.CloseIdleConnections()
	if b, err := Request(t.Context(), client, http.MethodGet, at.String(), ""); err != nil || len(b) != length {
		t.Errorf("%d of %d bytes, error %v", len(b), length, err)
	}
	length++
	if _, err := Request(t.Context(), client, http.MethodGet, at.String()+"/api", ""); err == nil || !strings.Contains(err.Error(), "/api: it is longer than 16 MiB") {
		t.Errorf("a longer one: error %v", err)
	}
}
