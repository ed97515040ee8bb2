package local

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/holdfast-ha/holdfast/clusters/agenthttp"
	"github.com/holdfast-ha/holdfast/clusters/internal/expiry"
	"github.com/holdfast-ha/holdfast/clusters/local/pki"
	"github.com/holdfast-ha/holdfast/clusters/system"
	"github.com/holdfast-ha/holdfast/framework"
)

// spoilt keeps the own certificates of a node's components while defective ones are in their
// place. The files are on the machine's disk and the timers in the process of the cluster, so
// both outlive a power cut.
type spoilt struct {
	mu     sync.Mutex
	own    map[framework.Component]map[string][]byte // of each by path; guarded by mu
	timers expiry.Timers[framework.Component]        // guarded by mu
}

// healed returns an error while defective certificates are in place. The caller holds the lock.
func (s *spoilt) healed() error {
	if len(s.own) > 0 {
		return errors.New("it serves with defective certificates: heal that (`holdfast heal`) first")
	}
	return nil
}

// servingCertificates are the files that a component serves with.
func servingCertificates(c framework.Component) []string {
	switch c {
	case framework.APIServer:
		return []string{pki.APIServerCert}
	case framework.Etcd:
		return []string{pki.EtcdServerCert, pki.EtcdPeerCert}
	}
	return nil
}

// SpoilCertificates implements framework.CertificateFaulter.
func (n *node) SpoilCertificates(_ context.Context, c framework.Component, d framework.CertificateDefect, ttl time.Duration) error {
	names := servingCertificates(c)
	if len(names) == 0 {
		return fmt.Errorf("certificates of %s cannot be replaced with defective ones: only those of %s and %s", c, framework.APIServer, framework.Etcd)
	}
	if ttl <= 0 {
		return fmt.Errorf("defective certificates need a time to live above zero, not %s", ttl)
	}
	n.spoilt.mu.Lock()
	defer n.spoilt.mu.Unlock()
	if n.spoilt.own[c] != nil {
		return agenthttp.NothingDone(fmt.Sprintf("the certificates of %s on %s are already defective", c, n.Name()))
	}
	good, bad := map[string][]byte{}, map[string][]byte{}
	for _, name := range names {
		path := filepath.Join(n.machine.dir, pkiDir, name)
		own, err := os.ReadFile(path)
		if err != nil {
			return fmt.Errorf("failed to read a certificate of %s on %s: %w", c, n.Name(), err)
		}
		if bad[path], err = n.cluster.pki.At(n.stages()[0]).Defective(name, own, d); err != nil {
			return err
		}
		good[path] = own
	}
	if n.spoilt.own == nil {
		n.spoilt.own = map[framework.Component]map[string][]byte{}
	}
	n.spoilt.own[c] = good // before one is replaced: what cannot be put back now is later
	n.spoilt.timers.Start(&n.spoilt.mu, c, ttl, func() error { return n.restore(c) })
	if err := replaceAll(bad); err != nil {
		return errors.Join(fmt.Errorf("failed to replace the certificates of %s on %s with defective ones: %w", c, n.Name(), err), n.restore(c))
	}
	return nil
}

// RestoreCertificates implements framework.CertificateFaulter.
func (n *node) RestoreCertificates(_ context.Context, c framework.Component) error {
	n.spoilt.mu.Lock()
	defer n.spoilt.mu.Unlock()
	return n.restore(c)
}

// restore puts the component's own files back, if others are in their place. The caller
// holds the lock.
func (n *node) restore(c framework.Component) error {
	if err := replaceAll(n.spoilt.own[c]); err != nil {
		return fmt.Errorf("failed to restore the certificates of %s on %s: %w", c, n.Name(), err)
	}
	n.spoilt.timers.Stop(c)
	delete(n.spoilt.own, c)
	return nil
}

// forget leaves the files as they are: the cluster is deleted, and another may have its files
// in the same place when the time to live is over.
func (s *spoilt) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.timers.StopAll()
	clear(s.own)
}

// replaceAll writes files so that a reader finds the old or the new one.
func replaceAll(files map[string][]byte) error {
	for path, b := range files {
		if err := system.ReplaceFile(path, b, 0o600, false); err != nil {
			return err
		}
	}
	return nil
}
