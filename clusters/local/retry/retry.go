// Package retry is a proxy between the program that simulates worker nodes and
// the API, which tries again what a kubelet would try again.
//
// A kubelet syncs its node and its pods over and over, so that a refused or lost
// write costs it some time. kwok applies a stage once for each event; if an API
// server answers "etcdserver: request timed out", say, as they do while etcd has no
// leader, a pod stays as it is for good, and a workload looks broken on a control
// plane that is not. The proxy repeats its patches and deletions until they are
// answered for good. All else, watches and leases among it, passes through once.
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

// Main is the proxy as a program: its arguments are the path of the kubeconfig that leads
// to the API, and the address to serve plain HTTP at. It returns only with an error.
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

// proxy passes requests on to target; what it streams, it streams at once.
func proxy(target *url.URL, transport *again) http.Handler {
	return &httputil.ReverseProxy{Transport: transport, FlushInterval: -1, ErrorLog: transport.log,
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) }}
}

// again carries requests, some of them repeatedly.
type again struct {
	carrier http.RoundTripper
	log     *log.Logger
}

// RoundTrip implements http.RoundTripper. A patch or a deletion is sent again, for as long
// as its sender waits, until there is an answer that another attempt would not change.
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

// settled reports whether an answer stands. An API server that has just started forbids what
// it allows a second later, when it has loaded the roles.
func settled(status int) bool {
	return status < http.StatusInternalServerError && status != http.StatusTooManyRequests && status != http.StatusForbidden
}
