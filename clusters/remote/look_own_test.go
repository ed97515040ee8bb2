package remote

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-ha/holdfast/framework"
)

// TestManifestsFor: those of all profiles that are tried on a node, and of no other.
func TestManifestsFor(t *testing.T) {
	const kubeadm, rke2 = "/etc/kubernetes/manifests/kube-apiserver.yaml", "/var/lib/rancher/rke2/agent/pod-manifests/kube-apiserver.yaml"
	for distribution, want := range map[string][]bool{"auto": {true, true}, "": {true, true}, "kubeadm": {true, false}, "rke2": {false, true}, "k0s": {false, false}} {
		files, err := manifestsFor(distribution, testNode())
		if got := []bool{slices.Contains(files, kubeadm), slices.Contains(files, rke2)}; err != nil || !slices.Equal(got, want) {
			t.Errorf("%q: %q, error %v", distribution, files, err)
		}
	}
	if _, err := manifestsFor("kubeadmin", testNode()); err == nil {
		t.Error("an unknown distribution was accepted")
	}
}

// TestLookOwnProfile looks at a process of this machine by a profile whose manifest is in a directory
// that no other profile has.
func TestLookOwnProfile(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("it takes root")
	}
	server := exec.Command("sleep", "1000")
	server.Args = []string{"my-apiserver", "1000"}
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = server.Process.Kill(); _ = server.Wait() }()
	dir := t.TempDir()
	manifest, profile := filepath.Join(dir, "it's", "apiserver.yaml"), filepath.Join(dir, "mine.yaml")
	if err := os.Mkdir(filepath.Dir(manifest), 0o755); err != nil {
		t.Fatal(err)
	}
	own := fmt.Sprintf("components:\n- {name: kube-apiserver, command: my-apiserver, parent: %s, manifest: %q}\n", filepath.Base(os.Args[0]), manifest)
	if err := os.WriteFile(profile, []byte(own), 0o600); err != nil {
		t.Fatal(err)
	}
	// An ssh that runs here what it is to run there.
	if err := os.WriteFile(filepath.Join(dir, "ssh"), []byte("#!/bin/sh\nfor last; do :; done\nexec sh -c \"$last\"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH"))
	port, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer port.Close()
	n := testNode()
	n.APIServer = port.Addr().String()
	s := shell{node: n.Name, destination: "here", control: dir}
	for _, there := range []bool{false, true} {
		if there {
			if err := os.WriteFile(manifest, []byte(apiServerPod), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		seen, err := s.lookFor(t.Context(), profile, n)
		if err != nil {
			t.Fatal(err)
		}
		f, err := detect(profile, n, seen)
		switch {
		case !there && (err == nil || !strings.Contains(err.Error(), "kube-apiserver is running, and "+manifest+" is missing")):
			t.Errorf("without its manifest: %v", err)
		case there && (err != nil || f.processes[framework.APIServer].pid != server.Process.Pid || f.config().Components[0].Manifest != manifest):
			t.Errorf("%+v, error %v", f, err)
		}
	}
	if _, err := s.lookFor(t.Context(), filepath.Join(dir, "none.yaml"), n); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("without the profile: %v", err)
	}
}
