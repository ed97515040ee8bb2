package agent

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/clusters/system"
	"github.com/holdfast-ha/holdfast/framework"
)

// inactive waits until no fault is active.
func (n *testNode) inactive() {
	n.t.Helper()
	eventually(n.t, "nothing is active", func() bool {
		left, err := n.Active(n.t.Context())
		return err == nil && len(left) == 0
	})
}

// TestSpoilFailsHalfway: if one of two certificates can neither be replaced nor restored, both are the
// node's own as soon as they can be, without a further request.
func TestSpoilFailsHalfway(t *testing.T) {
	t.Parallel()
	n := certificateNode(t)
	own := map[string][]byte{}
	for _, name := range []string{"server.crt", "peer.crt"} {
		file := filepath.Join(n.config.PKI, "etcd", name)
		b, err := os.ReadFile(file)
		must(t, err)
		own[file] = b
	}
	obstacle := system.Temporary(filepath.Join(n.config.PKI, "etcd", "peer.crt"))
	mkdir(t, obstacle)
	if err := n.SpoilCertificates(t.Context(), framework.Etcd, framework.CertificateExpired, time.Hour); err == nil || errors.Is(err, framework.ErrNothingDone) {
		t.Errorf("the certificates were replaced: %v", err)
	}
	must(t, os.Remove(obstacle))
	n.inactive()
	for file, want := range own {
		if b, err := os.ReadFile(file); err != nil || !bytes.Equal(b, want) {
			t.Errorf("%s is not the node's own: %v", file, err)
		}
	}
}

// TestSpoilWithoutRecord: certificates whose record cannot be written are left alone.
func TestSpoilWithoutRecord(t *testing.T) {
	t.Parallel()
	n := certificateNode(t)
	away := n.config.Dir + "-away"
	must(t, os.Rename(n.config.Dir, away))
	refused(t, n.SpoilCertificates(t.Context(), framework.APIServer, framework.CertificateExpired, time.Hour))
	must(t, verify(t, n.config.PKI, "apiserver", "ca", balancerName))
	must(t, os.Rename(away, n.config.Dir))
	must(t, n.SpoilCertificates(t.Context(), framework.APIServer, framework.CertificateExpired, time.Hour))
	must(t, n.RestoreCertificates(t.Context(), framework.APIServer))
	must(t, verify(t, n.config.PKI, "apiserver", "ca", balancerName))
	n.inactive()
}

// TestWipeMemberDoesNotStart: the data come back although systemd fails to start the member, once after
// they were taken away and once after they were put back.
func TestWipeMemberDoesNotStart(t *testing.T) {
	bin := t.TempDir()
	fail := filepath.Join(bin, "fail")
	write(t, filepath.Join(bin, "systemctl"), "#!/bin/sh\n[ \"$1\" != start ] || [ ! -e "+fail+" ] || { rm "+fail+"; exit 1; }\n")
	must(t, os.Chmod(filepath.Join(bin, "systemctl"), 0o755))
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	n := newNode(t)
	n.config.EtcdData = filepath.Join(t.TempDir(), "etcd")
	n.config.Components = []Component{{Name: framework.Etcd, Command: "etcd-of-a-unit-that-fails", Unit: "etcd.service"}}
	db := filepath.Join(n.config.EtcdData, "member", "snap", "db")
	mkdir(t, filepath.Dir(db))
	write(t, db, "data")
	n.up()

	write(t, fail, "")
	if _, err := n.WipeDisk(t.Context(), 2*time.Second); err == nil || !strings.Contains(err.Error(), "failed to release the hold on etcd") {
		t.Errorf("the member was not started: %v", err)
	}
	n.inactive()
	if !exists(db) {
		t.Error("the data are not there")
	}

	handle, err := n.WipeDisk(t.Context(), time.Hour)
	must(t, err)
	if exists(db) {
		t.Error("the data are there")
	}
	write(t, fail, "")
	if err := n.RestoreDisk(t.Context(), handle); err == nil || !strings.Contains(err.Error(), "failed to release the hold on etcd") || !exists(db) {
		t.Errorf("the member was not started: %v; the data are there: %t", err, exists(db))
	}
	must(t, n.RestoreDisk(t.Context(), handle))
	n.inactive()
}
