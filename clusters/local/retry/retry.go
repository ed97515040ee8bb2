// Package retry is a proxy between the program that simulates worker nodes and the API. It
// retries what a kubelet would retry.
//
// A kubelet syncs its node and its pods repeatedly, so that a refused or lost write costs it
// some time. kwok applies a stage once per event; if an API server answers for example
// "etcdserver: request timed out" while etcd has no leader, a pod is stuck permanently, and a
// workload looks broken on a healthy control plane. The proxy repeats kwok's patches and
// deletions until the answer is final. All other requests, including watches and leases, pass
// through once.
package retry

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// Pauses between attempts: the first, which each further one doubles, and the longest.
const (
	firstPause = 100 * time.Millisecond
	lastPause  = 2 * time.Second
)

// Main is the proxy as a program: its arguments are the path of the kubeconfig of the API, and
// the address on which to serve plain HTTP. It returns only with an error.
func Main(args []string) error {
	if len(args) != 2 {
		return errors.New("usage: holdfast-retry KUBECONFIG LISTEN")
	}
	config, err := clientcmd.BuildConfigFromFlags("", args[0])
	if err != nil {
		return fmt.Errorf("reading the kubeconfig %s: %w", args[0], err)
	}
	target, err := url.Parse(config.Host)
	if err != nil {
		return fmt.Errorf("the server in the kubeconfig %s: %w", args[0], err)
	}
	carrier, err := rest.TransportFor(config)
	if err != nil {
		return fmt.Errorf("making a client from the kubeconfig %s: %w", args[0], err)
	}
	l, err := net.Listen("tcp", args[1])
	if err != nil {
		return fmt.Errorf("the workers' proxy failed to listen: %w", err)
	}
	return http.Serve(l, proxy(target, &again{carrier: carrier, log: log.New(os.Stderr, "", log.LstdFlags|log.Lmicroseconds)}))
}

// proxy passes requests on to target; it flushes streams immediately.
func proxy(target *url.URL, transport *again) http.Handler {
	return &httputil.ReverseProxy{Transport: transport, FlushInterval: -1, ErrorLog: transport.log,
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) }}
}

// again carries requests, some of them repeatedly.
type again struct {
	carrier http.RoundTripper
	log     *log.Logger
}

// RoundTrip implements http.RoundTripper. It repeats a patch or a deletion, while its client
// waits, until another attempt would not change the answer.
func (a *again) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method != http.MethodPatch && r.Method != http.MethodDelete {
		return a.carrier.RoundTrip(r)
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		attempt := r.Clone(r.Context())
		attempt.Body = io.NopCloser(bytes.NewReader(body))
		resp, err := a.carrier.RoundTrip(attempt)
		if err == nil && settled(resp.StatusCode) {
			return resp, nil
		}
		why := err
		if err == nil {
			_, _ = io.Copy(io.Discard, resp.Body)
			_ = resp.Body.Close()
			why = errors.New(resp.Status)
		}
		a.log.Printf("%s %s: %v; again in %v", r.Method, r.URL.Path, why, pause)
		select {
		case <-r.Context().Done():
			return nil, r.Context().Err()
		case <-time.After(pause):
		}
	}
}

// settled reports whether an answer is final. An API server that has just started forbids
// requests that it allows a second later, when it has loaded the roles.
func settled(status int) bool {
	return status < http.StatusInternalServerError && status != http.StatusTooManyRequests && status != http.StatusForbidden
}
