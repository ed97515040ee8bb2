package agent

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-ha/holdfast/clusters/agenthttp"
	"github.com/holdfast-ha/holdfast/clusters/internal/expiry"
	"github.com/holdfast-ha/holdfast/clusters/local/pki"
	"github.com/holdfast-ha/holdfast/framework"
)

// certificates replaces the certificates that components serve with by defective ones. API
// server and etcd both reload them when the files change.
type certificates struct {
	pki   string // kubeadm's directory
	store *store

	mu     sync.Mutex
	timers expiry.Timers[framework.Component]
}

// spoiltState describes the certificates to put back.
type spoiltState struct {
	Until time.Time `json:"until"`
	// Own are the component's own files, by path.
	Own map[string][]byte `json:"own"`
	// Bad are the defective ones in their place. The state of an earlier version does not have them.
	Bad map[string][]byte `json:"bad,omitempty"`
}

// serving are the files that a component serves with, and those of the CA
// that signs them.
func serving(c framework.Component) (files []string, caCert, caKey string) {
	switch c {
	case framework.APIServer:
		return []string{pki.APIServerCert}, pki.CACert, pki.CAKey
	case framework.Etcd:
		return []string{pki.EtcdServerCert, pki.EtcdPeerCert}, pki.EtcdCACert, etcdCAKey
	}
	return nil, "", ""
}

// etcdCAKey is where kubeadm keeps the key of etcd's CA.
const etcdCAKey = "etcd/ca.key"

// resume takes over what an earlier agent left. Certificates whose time is over are put back immediately;
// over means that the time of all is.
func (s *certificates) resume(over bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c, spoilt := range s.saved() {
		left := time.Until(spoilt.Until)
		if over {
			left = 0
		}
		if left <= 0 {
			err := s.putBack(c)
			if err == nil {
				continue
			}
			complain(err)
		}
		s.restoreIn(c, max(retryPause, left))
	}
}

func (s *certificates) saved() map[framework.Component]spoiltState {
	all := map[framework.Component]spoiltState{}
	s.store.read(func(st *state) {
		for c, spoilt := range st.Spoilt {
			all[c] = *spoilt
		}
	})
	return all
}

// spoil replaces a component's own certificates by defective ones.
func (s *certificates) spoil(c framework.Component, d framework.CertificateDefect, balancer string, ttl time.Duration) error {
	files, caCert, caKey := serving(c)
	if len(files) == 0 || s.pki == "" {
		return agenthttp.Unsupported(fmt.Sprintf("certificates of %s cannot be replaced with defective ones here: only those of %s and %s on a control-plane node", c, framework.APIServer, framework.Etcd))
	}
	if ttl <= 0 {
		return ErrNoTTL
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, spoilt := s.saved()[c]; spoilt {
		return agenthttp.NothingDone("they are already defective")
	}
	signer, err := s.authority(caCert, caKey)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return agenthttp.Unsupported(err.Error())
	case err != nil:
		return agenthttp.NothingDone(err.Error())
	}
	own, bad := map[string][]byte{}, map[string][]byte{}
	for _, name := range files {
		path := filepath.Join(s.pki, name)
		if own[path], err = os.ReadFile(path); err == nil {
			bad[path], err = signer.Defective(own[path], d, balancer)
		}
		if err != nil {
			return agenthttp.NothingDone(fmt.Sprintf("making a defective %s: %v", name, err))
		}
	}
	// Save the own certificates to disk before they are replaced.
	err = s.store.update(func(st *state) { st.Spoilt[c] = &spoiltState{Until: time.Now().Add(ttl), Own: own, Bad: bad} })
	if err != nil {
		s.store.note(func(st *state) { delete(st.Spoilt, c) })
		return agenthttp.NothingDone(err.Error())
	}
	s.restoreIn(c, ttl)
	if err := replaceAll(bad); err != nil {
		if backErr := s.putBack(c); backErr != nil {
			s.restoreIn(c, retryPause)
			err = errors.Join(err, backErr)
		}
		return err
	}
	return nil
}

func (s *certificates) authority(cert, key string) (*pki.Authority, error) {
	certPEM, err := os.ReadFile(filepath.Join(s.pki, cert))
	if err != nil {
		return nil, fmt.Errorf("failed to read the CA's certificate: %w", err)
	}
	keyPEM, err := os.ReadFile(filepath.Join(s.pki, key))
	if err != nil {
		return nil, fmt.Errorf("failed to read the CA's key: %w", err)
	}
	return pki.LoadAuthority(certPEM, keyPEM)
}

// restore puts a component's own certificates back; it does nothing if they are in place.
func (s *certificates) restore(c framework.Component) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.putBack(c)
}

// putBack is restore with mu held. A certificate that was replaced in the meantime stays, and is
// reported once: with a renewed certificate, the key is new as well, and does not match the old one.
func (s *certificates) putBack(c framework.Component) error {
	spoilt, ok := s.saved()[c]
	if !ok {
		return nil
	}
	back, renewed, err := spoilt.ours()
	if err == nil {
		err = replaceAll(back)
	}
	if err != nil {
		return fmt.Errorf("failed to restore the certificates of %s: %w", c, err)
	}
	s.store.note(func(st *state) { delete(st.Spoilt, c) })
	if len(renewed) > 0 {
		return fmt.Errorf("failed to restore the certificates of %s: %s was replaced while a defective certificate was in its place, and stays; "+
			"check that it matches its key and has the right names", c, strings.Join(renewed, ", "))
	}
	s.timers.Stop(c)
	return nil
}

// ours returns the certificates to put back, and the files that another program has replaced. What a
// script has put back may be only a part.
func (s *spoiltState) ours() (back map[string][]byte, renewed []string, err error) {
	back = map[string][]byte{}
	for _, path := range slices.Sorted(maps.Keys(s.Own)) {
		now, err := os.ReadFile(path)
		bad, known := s.Bad[path]
		switch {
		case err != nil:
			return nil, nil, err
		case known && !bytes.Equal(now, bad) && !bytes.HasPrefix(s.Own[path], now):
			renewed = append(renewed, path)
		default:
			back[path] = s.Own[path]
		}
	}
	return back, renewed, nil
}

// restoreIn restores later, and retries until it succeeds; with mu held.
func (s *certificates) restoreIn(c framework.Component, d time.Duration) {
	s.timers.Start(&s.mu, c, d, func() error { return s.putBack(c) })
}

// replaceAll replaces the content of files.
func replaceAll(files map[string][]byte) error {
	for path, b := range files {
		if err := replaceContent(path, b); err != nil {
			return fmt.Errorf("failed to replace %s: %w", path, err)
		}
	}
	return nil
}

func (s *certificates) handle(mux *http.ServeMux) {
	answer(mux, "POST /spoil", func(_ context.Context, r request) (any, error) {
		return nil, s.spoil(r.Component, r.Defect, r.Name, r.For)
	})
	answer(mux, "POST /unspoil", func(_ context.Context, r request) (any, error) { return nil, s.restore(r.Component) })
	answer(mux, "GET /spoilt", func(context.Context, request) (any, error) {
		return slices.Sorted(maps.Keys(s.saved())), nil
	})
}

// SpoilCertificates implements framework.CertificateFaulter.
func (c *Client) SpoilCertificates(ctx context.Context, component framework.Component, d framework.CertificateDefect, ttl time.Duration) error {
	return c.post(ctx, "spoil", fmt.Sprintf("replace the certificates of %s with defective ones", component),
		request{Component: component, Defect: d, Name: c.Balancer, For: ttl}, nil)
}

// RestoreCertificates implements framework.CertificateFaulter.
func (c *Client) RestoreCertificates(ctx context.Context, component framework.Component) error {
	return c.post(ctx, "unspoil", fmt.Sprintf("restore the certificates of %s", component), request{Component: component}, nil)
}

// DefectiveCertificates returns the components that have defective certificates in place of their own.
func (c *Client) DefectiveCertificates(ctx context.Context) (all []framework.Component, err error) {
	err = c.do(ctx, answerLimit, http.MethodGet, "spoilt", "ask which certificates are defective", nil, &all)
	return all, err
}
