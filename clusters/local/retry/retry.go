// Package retry is a proxy between the program that simulates worker nodes and the API. It
// retries what a kubelet would retry.
//
// A kubelet syncs its node and its pods repeatedly, so that a refused or lost write costs it
// some time. kwok applies a stage once per event; if an API server answers for example
// "etcdserver: request timed out" while etcd has no leader, a pod is stuck permanently, and a
// workload looks broken on a healthy control plane. The proxy repeats kwok's patches and
// deletions until the answer is final.
//
// A kubelet renews its lease from the last answer. kwok renews the one that its watch showed it, and
// a watch may take half a minute to come back after all API servers were away: until then each
// renewal but the first would conflict, and healthy nodes be evicted. The proxy makes such a renewal
// one of the newest version. All other requests pass through once.
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
	"strings"
	"time"

	coordination "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/holdfast-ha/holdfast/framework/workload/client"
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
		return fmt.Errorf("failed to read the kubeconfig %s: %w", args[0], err)
	}
	target, err := url.Parse(config.Host)
	if err != nil {
		return fmt.Errorf("the server in the kubeconfig %s: %w", args[0], err)
	}
	carrier, err := rest.TransportFor(config)
	if err != nil {
		return fmt.Errorf("failed to make a client from the kubeconfig %s: %w", args[0], err)
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

// nodeLeases is the path of the leases of nodes.
const nodeLeases = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/"

// RoundTrip implements http.RoundTripper. It repeats a patch or a deletion, while its client
// waits, until another attempt would not change the answer.
func (a *again) RoundTrip(r *http.Request) (*http.Response, error) {
	renewal := r.Method == http.MethodPut && strings.HasPrefix(r.URL.Path, nodeLeases)
	if r.Method != http.MethodPatch && r.Method != http.MethodDelete && !renewal {
		return a.carrier.RoundTrip(r)
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	if renewal {
		return a.renew(r, body)
	}
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		resp, err := a.send(r, r.Method, body)
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
		if !client.Pause(r.Context(), pause) {
			return nil, r.Context().Err()
		}
	}
}

func (a *again) send(r *http.Request, method string, body []byte) (*http.Response, error) {
	attempt := r.Clone(r.Context())
	attempt.Method, attempt.Body, attempt.ContentLength = method, io.NopCloser(bytes.NewReader(body)), int64(len(body))
	return a.carrier.RoundTrip(attempt)
}

// renew carries the renewal of a node's lease, and another one of the newest version if that
// is newer and the sender still holds it.
func (a *again) renew(r *http.Request, body []byte) (*http.Response, error) {
	resp, err := a.send(r, r.Method, body)
	if err != nil || resp.StatusCode != http.StatusConflict {
		return resp, err
	}
	newest, err := a.newest(r, body)
	if err != nil {
		a.log.Printf("%s %s: %s; not again: %v", r.Method, r.URL.Path, resp.Status, err)
		return resp, nil
	}
	_ = resp.Body.Close()
	return a.send(r, r.Method, newest)
}

// newest returns a lease, which must have the same holder, in the newest version.
func (a *again) newest(r *http.Request, body []byte) ([]byte, error) {
	mine, err := decode(body)
	if err != nil {
		return nil, err
	}
	resp, err := a.send(r, http.MethodGet, nil)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = errors.New(resp.Status)
	}
	if err != nil {
		return nil, err
	}
	stored, err := decode(answer)
	if err != nil {
		return nil, err
	}
	if now := holder(stored); now != holder(mine) {
		return nil, fmt.Errorf("%q holds it", now)
	}
	mine.ResourceVersion = stored.ResourceVersion
	info, ok := runtime.SerializerInfoForMediaType(scheme.Codecs.SupportedMediaTypes(), r.Header.Get("Content-Type"))
	if !ok {
		return nil, fmt.Errorf("the content type %q is unknown", r.Header.Get("Content-Type"))
	}
	return runtime.Encode(scheme.Codecs.EncoderForVersion(info.Serializer, coordination.SchemeGroupVersion), mine)
}

// decode reads a lease as JSON or as Protobuf, which kwok sends.
func decode(body []byte) (*coordination.Lease, error) {
	lease := &coordination.Lease{}
	_, _, err := scheme.Codecs.UniversalDeserializer().Decode(body, nil, lease)
	return lease, err
}

func holder(l *coordination.Lease) string {
	if l.Spec.HolderIdentity == nil {
		return ""
	}
	return *l.Spec.HolderIdentity
}

// settled reports whether an answer is final. An API server that has just started forbids
// requests that it allows a second later, when it has loaded the roles.
func settled(status int) bool {
	return status < http.StatusInternalServerError && status != http.StatusTooManyRequests && status != http.StatusForbidden
}
