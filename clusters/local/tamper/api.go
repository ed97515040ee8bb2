package tamper

import (
	"bytes"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strconv"
	"strings"
	"sync"

	"k8s.io/client-go/util/cert"
)

// APIConfig says where the proxy in front of an API server listens, and where
// the server is.
type APIConfig struct {
	Listen string `json:"listen"`
	Server string `json:"server"` // host and port
	// Cert and Key serve clients; CA is the CA of clients and server.
	Cert string `json:"cert"`
	Key  string `json:"key"`
	CA   string `json:"ca"`
	// FrontCert and FrontKey let the proxy speak for those whose certificate it
	// has seen (requestheader authentication).
	FrontCert string `json:"frontCert"`
	FrontKey  string `json:"frontKey"`
}

// apiProxy passes requests on to an API server.
type apiProxy struct {
	desk *desk
	addr net.Addr
	web  *http.Server
	// known carries requests of users, anonymous those without a user.
	known, anonymous *http.Transport

	mu    sync.Mutex
	first map[string]answer // by URL: what OldAnswer gives
	// written is what electors wrote last, by path.
	written map[string]leaseWrite
}

type answer struct {
	status int
	body   []byte
}

func startAPI(c APIConfig) (*apiProxy, error) {
	serving, err := tls.LoadX509KeyPair(c.Cert, c.Key)
	if err != nil {
		return nil, fmt.Errorf("failed to read the certificate of the API proxy: %w", err)
	}
	front, err := tls.LoadX509KeyPair(c.FrontCert, c.FrontKey)
	if err != nil {
		return nil, fmt.Errorf("failed to read the client certificate of the API proxy: %w", err)
	}
	pool, err := cert.NewPool(c.CA)
	if err != nil {
		return nil, fmt.Errorf("failed to read the CA of the API proxy: %w", err)
	}
	// Without credentials an API server closes an HTTP/2 connection after each request.
	transport := func(certs ...tls.Certificate) *http.Transport {
		return &http.Transport{ForceAttemptHTTP2: len(certs) > 0, DisableCompression: true, MaxIdleConnsPerHost: 64,
			TLSClientConfig: &tls.Config{Certificates: certs, RootCAs: pool, MinVersion: tls.VersionTLS12}}
	}
	p := &apiProxy{desk: &desk{modes: apiModes}, known: transport(front), anonymous: transport(), first: map[string]answer{}, written: map[string]leaseWrite{}}
	l, err := net.Listen("tcp", c.Listen)
	if err != nil {
		return nil, fmt.Errorf("the API proxy failed to listen: %w", err)
	}
	p.addr = l.Addr()
	server := &url.URL{Scheme: "https", Host: c.Server}
	p.web = &http.Server{
		Handler:   &httputil.ReverseProxy{Transport: p, FlushInterval: -1, Rewrite: func(r *httputil.ProxyRequest) { rewrite(r, server) }},
		TLSConfig: &tls.Config{Certificates: []tls.Certificate{serving}, ClientCAs: pool, ClientAuth: tls.VerifyClientCertIfGiven, MinVersion: tls.VersionTLS12},
	}
	go func() { _ = p.web.ServeTLS(l, "", "") }()
	return p, nil
}

// rewrite aims a request at the server in the name of whose certificate came
// with it.
func rewrite(r *httputil.ProxyRequest, server *url.URL) {
	r.SetURL(server)
	for name := range r.Out.Header {
		if strings.HasPrefix(name, "X-Remote-") {
			r.Out.Header.Del(name)
		}
	}
	if state := r.In.TLS; state != nil && len(state.PeerCertificates) > 0 {
		subject := state.PeerCertificates[0].Subject
		r.Out.Header.Set("X-Remote-User", subject.CommonName)
		for _, group := range subject.Organization {
			r.Out.Header.Add("X-Remote-Group", group)
		}
	}
}

// RoundTrip implements http.RoundTripper: it passes a request on, tampered with
// or not.
func (p *apiProxy) RoundTrip(r *http.Request) (*http.Response, error) {
	path := r.URL.Path
	if _, ok := p.desk.act(Unavailable, path); ok {
		return unavailable(r, "tampered with"), nil
	}
	query := r.URL.Query()
	switch {
	case isElector(r):
		return p.election(r)
	case r.Method != http.MethodGet:
		return p.pass(r)
	case query.Get("watch") == "true" || query.Get("watch") == "1":
		return p.watch(r, query)
	}
	return p.read(r, query)
}

func (p *apiProxy) pass(r *http.Request) (*http.Response, error) {
	if r.Header.Get("X-Remote-User") == "" {
		return p.anonymous.RoundTrip(r)
	}
	return p.known.RoundTrip(r)
}

// shuttingDown is what an API server that is being stopped answers to a new request.
const shuttingDown = "apiserver is shutting down"

// unavailable is the answer of an API server that does not serve a request.
func unavailable(r *http.Request, why string) *http.Response {
	return answerWith(r, nil, answer{http.StatusServiceUnavailable,
		fmt.Appendf(nil, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"ServiceUnavailable","message":%q,"code":503}`, why)})
}

// answerWith returns a response with a body of JSON, like another one but for that. The
// other's type stays: its parameters name the kind of discovery.
func answerWith(r *http.Request, like *http.Response, a answer) *http.Response {
	h := http.Header{"Content-Type": {"application/json"}}
	if like != nil {
		h = like.Header.Clone()
	}
	h.Set("Content-Length", strconv.Itoa(len(a.body)))
	return &http.Response{Status: http.StatusText(a.status), StatusCode: a.status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: h, Body: io.NopCloser(bytes.NewReader(a.body)), ContentLength: int64(len(a.body)), Request: r}
}

// object is a JSON object whose fields are left as they are.
type object map[string]json.RawMessage

// part returns a field that is an object itself, nil if it is not.
func (o object) part(name string) (part object) {
	if json.Unmarshal(o[name], &part) != nil {
		return nil
	}
	return part
}

func (o object) text(name string) (s string) {
	_ = json.Unmarshal(o[name], &s)
	return s
}

func (o object) set(name string, v any) {
	o[name], _ = json.Marshal(v) // what is set here always encodes
}

// bytes encodes the object: raw parts of what was decoded.
func (o object) bytes() []byte {
	b, _ := json.Marshal(o)
	return b
}
