package agent

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/framework"
)

// foreign gives a file an owner that is not root, and a mode, and returns what checks that it
// has them, and nothing beside it.
func foreign(t *testing.T, file string, mode os.FileMode) (check func(when string)) {
	t.Helper()
	const uid, gid = 52034, 52035 // etcd's on hardened nodes, for example
	if err := os.Chown(file, uid, gid); err != nil {
		t.Skip(err)
	}
	must(t, os.Chmod(file, mode))
	return func(when string) {
		t.Helper()
		info, err := os.Stat(file)
		must(t, err)
		if own := info.Sys().(*syscall.Stat_t); own.Uid != uid || own.Gid != gid || info.Mode().Perm() != mode {
			t.Errorf("%s: %s belongs to %d:%d with mode %s, want %d:%d and %s", when, file, own.Uid, own.Gid, info.Mode().Perm(), uid, gid, mode)
		}
		if left, _ := filepath.Glob(filepath.Join(filepath.Dir(file), ".*")); len(left) > 0 {
			t.Errorf("%s: left behind: %v", when, left)
		}
	}
}

// TestManifestKeepsOwner checks that a manifest that is changed keeps its mode and owner.
func TestManifestKeepsOwner(t *testing.T) {
	t.Parallel()
	m := manifest(filepath.Join(t.TempDir(), "kube-scheduler.yaml"))
	write(t, m.path(), fmt.Sprintf(testManifest, scheduler))
	check := foreign(t, m.path(), 0o644)
	must(t, m.edit(renew))
	check("renewed")
	pod, err := m.read()
	must(t, err)
	if notes, _ := pod["metadata"].(map[string]any)["annotations"].(map[string]any); notes[renewed] == nil {
		t.Errorf("the pod is %v", pod)
	}
}

// TestCertificatesKeepOwner checks that the files of a component that is not root stay readable
// for it, while they are defective and after that. One of them is a symbolic link.
func TestCertificatesKeepOwner(t *testing.T) {
	t.Parallel()
	n := certificateNode(t)
	server, peer := filepath.Join(n.config.PKI, "etcd", "server.crt"), filepath.Join(n.config.PKI, "etcd", "peer.crt")
	target := filepath.Join(n.config.PKI, "peer-of-etcd.crt")
	must(t, os.Rename(peer, target))
	must(t, os.Symlink(target, peer))
	checks := []func(string){foreign(t, server, 0o640), foreign(t, target, 0o444)}
	check := func(when string) {
		t.Helper()
		for _, one := range checks {
			one(when)
		}
		if to, err := os.Readlink(peer); err != nil || to != target {
			t.Errorf("%s: the link leads to %q, %v", when, to, err)
		}
	}
	good := func() bool {
		return verify(t, n.config.PKI, "etcd/server", "etcd/ca", balancerName) == nil && verify(t, n.config.PKI, "etcd/peer", "etcd/ca", balancerName) == nil
	}
	spoil := func() {
		t.Helper()
		must(t, n.SpoilCertificates(t.Context(), framework.Etcd, framework.CertificateExpired, time.Hour))
		if good() {
			t.Error("the certificates are not defective")
		}
		check("defective")
	}
	spoil()
	must(t, n.RestoreCertificates(t.Context(), framework.Etcd))
	check("restored")
	spoil()
	n.kill()
	if out, err := exec.Command("sh", undoFile(n.config.Dir)).CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("%s, %v", out, err)
	}
	check("healed by a shell")
	if !good() {
		t.Error("the certificates are still defective")
	}
}
