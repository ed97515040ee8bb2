package fault

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-ha/holdfast/framework"
)

// fakeTrust is what a fake node serves with, and how its clocks are moved.
type fakeTrust struct {
	defects map[framework.Component]framework.CertificateDefect
	// insteadOf replaces the defects that are asked for.
	insteadOf map[framework.CertificateDefect]framework.CertificateDefect

	shifts map[string]fakeShift
	// off is by how much too far every shift goes; lies means that none has an effect, although
	// the memory shows it.
	off  time.Duration
	lies bool
	// unmoved means that no clock is moved in the memory either.
	unmoved bool
	// reloads is how long a component serves with the old certificate after healing.
	reloads time.Duration
	// noClocks is why clocks cannot be moved.
	noClocks error
}

type fakeShift struct {
	framework.ClockShift
	components []framework.Component
	began      time.Time
}

func (s fakeShift) at(t time.Time) time.Duration {
	return s.Offset + time.Duration(s.Drift*float64(t.Sub(s.began)))
}

func (n *fakeNode) SpoilCertificates(_ context.Context, c framework.Component, d framework.CertificateDefect, ttl time.Duration) error {
	defer n.lock()()
	if n.trust.defects[c] != "" {
		return framework.ErrNothingDone
	}
	if n.c.ask() {
		if other, ok := n.trust.insteadOf[d]; ok {
			d = other
		}
		n.trust.defects = map[framework.Component]framework.CertificateDefect{c: d}
		n.c.later(ttl, func() { delete(n.trust.defects, c) })
	}
	return n.c.refuses
}

func (n *fakeNode) RestoreCertificates(_ context.Context, c framework.Component) error {
	n.c.mu.Lock()
	defer n.c.mu.Unlock()
	if !n.c.stubborn {
		if n.trust.reloads > 0 {
			n.c.later(n.trust.reloads, func() { delete(n.trust.defects, c) })
			return nil
		}
		delete(n.trust.defects, c)
	}
	return nil
}

func (n *fakeNode) ClockSupport() error { return n.trust.noClocks }

func (n *fakeNode) ShiftClock(_ context.Context, components []framework.Component, s framework.ClockShift, ttl time.Duration) (string, error) {
	n.c.mu.Lock()
	defer n.c.mu.Unlock()
	handle := strconv.Itoa(n.c.asked)
	if n.c.ask() {
		if n.trust.shifts == nil {
			n.trust.shifts = map[string]fakeShift{}
		}
		s.Offset += n.trust.off
		n.trust.shifts[handle] = fakeShift{s, components, time.Now()}
		n.c.later(ttl, func() { delete(n.trust.shifts, handle) })
	}
	return handle, n.c.refuses
}

func (n *fakeNode) UnshiftClock(_ context.Context, handle string) error {
	n.c.mu.Lock()
	defer n.c.mu.Unlock()
	if !n.c.stubborn {
		delete(n.trust.shifts, handle)
	}
	return nil
}

func (n *fakeNode) ReadClock(_ context.Context, c framework.Component) (framework.ClockReading, error) {
	n.c.mu.Lock()
	defer n.c.mu.Unlock()
	if n.processes[c].PID == 0 {
		return framework.ClockReading{}, errors.New("it is not running")
	}
	r := framework.ClockReading{Untouched: true}
	for handle, s := range n.trust.shifts {
		if slices.Contains(s.components, c) {
			r.Offset += s.at(time.Now())
			r.Drift += s.Drift
			r.Shifts, r.Untouched = append(r.Shifts, handle), n.trust.unmoved
		}
	}
	return r, nil
}

func (n *fakeNode) now(c framework.Component) time.Time {
	r, err := n.ReadClock(context.Background(), c)
	if err != nil || n.trust.lies {
		return time.Now()
	}
	return time.Now().Add(r.Offset)
}

func (n *fakeNode) ServingEndpoints(c framework.Component) ([]framework.ServingEndpoint, error) {
	if !slices.Contains(n.runs, c) {
		return nil, fmt.Errorf("node %s has no %s that serves TLS", n.name, c)
	}
	if endpoints, ok := n.serves[c]; ok {
		return endpoints, nil
	}
	return []framework.ServingEndpoint{{Name: "https", Address: n.name + ":6443", Names: []string{n.name, "balancer"}, Path: "/livez",
		TLS: &tls.Config{RootCAs: testAuthority().pool}, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
			if err := n.reach(ctx, c, 6443); err != nil {
				return nil, err
			}
			client, server := net.Pipe()
			go n.serveTLS(c, server)
			return client, nil
		}}}, nil
}

// serveTLS answers one request with the component's certificate and time.
func (n *fakeNode) serveTLS(c framework.Component, raw net.Conn) {
	defer raw.Close()
	n.c.mu.Lock()
	cert := testCertificate(n.trust.defects[c], n.name)
	n.c.mu.Unlock()
	// A pipe has no buffer, so a server must not write before the client reads.
	conn := tls.Server(raw, &tls.Config{Certificates: []tls.Certificate{cert}, SessionTicketsDisabled: true,
		CurvePreferences: []tls.CurveID{tls.X25519}}) // the least costly
	if _, err := http.ReadRequest(bufio.NewReader(conn)); err != nil {
		return
	}
	fmt.Fprintf(conn, "HTTP/1.1 200 OK\r\nDate: %s\r\nContent-Length: 0\r\n\r\n", n.now(c).UTC().Format(http.TimeFormat))
	_, _ = io.Copy(io.Discard, conn)
}

// authority signs the certificates of fake components.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pool *x509.CertPool
}

// Times of certificates; fake clusters start in 2000.
var (
	longAgo = time.Date(1990, 1, 1, 0, 0, 0, 0, time.UTC)
	lately  = time.Date(1999, 1, 1, 0, 0, 0, 0, time.UTC)
	farOff  = time.Date(2090, 1, 1, 0, 0, 0, 0, time.UTC)
)

var testAuthority = sync.OnceValue(newAuthority)

func newAuthority() *authority {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority"}, NotBefore: longAgo, NotAfter: farOff,
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	a := &authority{key: key, pool: x509.NewCertPool()}
	a.cert = sign(template, template, key, key)
	a.pool.AddCert(a.cert)
	return a
}

func sign(template, parent *x509.Certificate, key, signer *ecdsa.PrivateKey) *x509.Certificate {
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer)
	if err != nil {
		panic(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		panic(err)
	}
	return cert
}

var testCertificates sync.Map // by node and defect

// testCertificate returns what a fake component serves with.
func testCertificate(defect framework.CertificateDefect, node string) tls.Certificate {
	key := node + " " + string(defect)
	if made, ok := testCertificates.Load(key); ok {
		return made.(tls.Certificate)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(2), NotBefore: longAgo, NotAfter: farOff, DNSNames: []string{node, "balancer"}}
	own := testAuthority()
	signer := own
	switch defect {
	case framework.CertificateExpired:
		template.NotAfter = lately
	case framework.CertificateWrongNames:
		template.DNSNames = []string{"wrong.invalid"}
	case framework.CertificateUntrusted:
		signer = newAuthority()
	}
	cert := tls.Certificate{Certificate: [][]byte{sign(template, signer.cert, own.key, signer.key).Raw}, PrivateKey: own.key}
	testCertificates.Store(key, cert)
	return cert
}

// inBubble runs a test in fake time on a cluster whose components answer.
func inBubble(t *testing.T, name string, f func(*testing.T, *fakeCluster)) {
	t.Run(name, func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c := newFake(framework.APIServer, framework.ControllerManager, framework.Scheduler)
			time.Sleep(time.Minute)
			f(t, c)
		})
	})
}
