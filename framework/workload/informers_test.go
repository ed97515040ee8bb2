package workload

import (
	"net/http"
	"net/url"
	"testing"

	"k8s.io/client-go/rest"
)

// Clients use the proxy of their configuration only.
func TestWithoutProxy(t *testing.T) {
	own := &url.URL{Scheme: "http", Host: "proxy.invalid:3128"}
	for _, test := range []struct {
		config rest.Config
		want   *url.URL
	}{
		{rest.Config{}, nil},
		{rest.Config{Proxy: http.ProxyURL(own)}, own},
	} {
		config := withoutProxy(&test.config)
		if config.Proxy == nil {
			t.Fatal("a client would use the proxy of the environment")
		}
		if got, err := config.Proxy(nil); err != nil || got != test.want {
			t.Errorf("proxy %v, %v, want %v", got, err, test.want)
		}
	}
}
