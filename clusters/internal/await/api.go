package await

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"k8s.io/client-go/rest"

	"github.com/holdfast-ha/holdfast/framework"
)

// Anything accepts every answer.
func Anything([]byte) error { return nil }

// Holder accepts a lease that has a holder.
func Holder(body []byte) error {
	holder, err := HolderOf(body)
	if err == nil && holder == "" {
		err = errors.New("its lease has no holder")
	}
	return err
}

// HolderOf returns the holder of a lease.
func HolderOf(body []byte) (string, error) {
	var lease struct {
		Spec struct{ HolderIdentity string }
	}
	err := json.Unmarshal(body, &lease)
	return lease.Spec.HolderIdentity, err
}

// LeasePath is where an elected component's lease is.
func LeasePath(c framework.Component) string {
	return "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/" + string(c)
}

// API requests path from an entrance until the answer is 200 and good accepts it.
func API(ctx context.Context, e framework.Entrance, path string, good func([]byte) error) ([]byte, error) {
	client, err := Client(e.Config)
	if err != nil {
		return nil, err
	}
	defer client.CloseIdleConnections()
	var body []byte
	err = Until(ctx, 25*time.Millisecond, func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
		var err error
		if body, err = Request(ctx, client, http.MethodGet, e.Config.Host+path, ""); err != nil {
			return err
		}
		return good(body)
	})
	return body, err
}

// Client returns a client whose connections close with it, when its idle ones are closed.
// client-go's clients cannot be closed: its wrappers hide the method, and its cache drops them
// while they stay open for another minute and a half. It uses the proxy of the configuration alone, and
// none from the environment.
func Client(config *rest.Config) (*http.Client, error) {
	tls, err := rest.TLSConfigFor(config)
	if err != nil {
		return nil, err
	}
	base := &http.Transport{Proxy: config.Proxy, DialContext: config.Dial, TLSClientConfig: tls}
	rt, err := rest.HTTPWrappersForConfig(config, base)
	return &http.Client{Transport: closable{rt, base}}, err
}

// closable is a transport inside client-go's wrappers whose connections can be closed.
type closable struct {
	http.RoundTripper
	base *http.Transport
}

func (c closable) CloseIdleConnections() { c.base.CloseIdleConnections() }

// StatusError is an answer other than 2xx.
type StatusError struct {
	Code int
	Body string
}

func (e StatusError) Error() string { return fmt.Sprintf("HTTP %d: %s", e.Code, e.Body) }

// MaxAnswer is the length in bytes of the longest answer that Request accepts.
const MaxAnswer = 16 << 20

// Request sends one request with a JSON body, if it has one, and returns the body of the
// answer. It fails with a StatusError if the status is not 2xx, and if the answer is longer than
// MaxAnswer.
func Request(ctx context.Context, client *http.Client, method, url, body string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(io.LimitReader(resp.Body, MaxAnswer+1))
	if err != nil {
		return nil, err
	}
	if resp.StatusCode/100 != 2 {
		return nil, StatusError{resp.StatusCode, strings.TrimSpace(string(b[:min(len(b), 300)]))}
	}
	if len(b) > MaxAnswer {
		return nil, fmt.Errorf("failed to read the response of %s: it is longer than %d MiB", req.URL.Path, MaxAnswer>>20)
	}
	return b, nil
}
