package image

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// What is exported comes out as it is, and no container stays, whatever happens.
func TestExport(t *testing.T) {
	f := newFake(t, sourceBuild)
	f.put("exported", "an archive")
	e := Export{Image: "holdfast/kind-node:v1.99.3", Kubernetes: "v1.99.3", Container: "holdfast-upgrade-x", Label: "holdfast.upgrade=x"}
	var out bytes.Buffer
	if err := e.To(t.Context(), &out); err != nil || out.String() != "an archive" {
		t.Fatalf("%q, %v", out.String(), err)
	}
	gone := func() {
		t.Helper()
		if _, err := os.Stat(filepath.Join(f.engine, "container")); err == nil {
			t.Error("the container stays")
		}
	}
	gone()
	log, _ := os.ReadFile(filepath.Join(f.engine, "log"))
	for _, want := range []string{
		"run --detach --name holdfast-upgrade-x --network none --security-opt seccomp=unconfined --label holdfast.upgrade=x --entrypoint sleep holdfast/kind-node:v1.99.3 infinity\n",
		"kubeadm config images list --kubernetes-version v1.99.3)",
	} {
		if !strings.Contains(string(log), want) {
			t.Errorf("no %q in\n%s", want, log)
		}
	}
	f.put("unknown", "")
	if err := e.To(t.Context(), &out); err == nil || !strings.Contains(err.Error(), "extract the parts of Kubernetes v1.99.3 from holdfast/kind-node:v1.99.3") || !strings.Contains(err.Error(), "not found") {
		t.Error(err)
	}
	gone()
	f.put("broken", "")
	if err := e.To(t.Context(), &out); err == nil || !strings.Contains(err.Error(), "containerd is broken") {
		t.Error(err)
	}
	gone()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := e.To(ctx, &out); err == nil {
		t.Error("it does not notice the end of its context")
	}
	gone()
}

// The script puts links and what they lead to into the archive, once each.
func TestExportScript(t *testing.T) {
	root := t.TempDir()
	bin := filepath.Join(root, "usr", "bin")
	if err := os.MkdirAll(bin, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"node":  "#!/bin/sh\n[ \"$1\" != config ] || echo registry.k8s.io/pause:3.10\n",
		"ctr":   "#!/bin/sh\necho exporting >&2; [ \"$5\" = " + root + "/holdfast/images.tar ] && echo \"$6\" >\"$5\"\n",
		"spare": "not asked for",
	} {
		if err := os.WriteFile(filepath.Join(bin, name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"kubeadm", "kubelet", "kubectl"} {
		if err := os.Symlink("node", filepath.Join(bin, name)); err != nil {
			t.Fatal(err)
		}
	}
	run := func() (string, error) {
		script := strings.NewReplacer("/usr", root+"/usr", "/holdfast", root+"/holdfast").Replace(exportScript("v1.99.3"))
		script = strings.Replace(script, "exec tar --create", "exec tar --create --verbose", 1) // lists them on stderr
		cmd := exec.Command("sh", "-c", script)
		cmd.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"))
		var said bytes.Buffer
		cmd.Stderr = &said
		_, err := cmd.Output()
		return said.String(), err
	}
	if got, err := run(); err != nil || got != "exporting\nbin/kubeadm\nbin/node\nbin/kubelet\nbin/kubectl\nimages.tar\n" {
		t.Errorf("%q, %v", got, err)
	}
	if err := os.Remove(filepath.Join(bin, "kubelet")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/opt/kubelet", filepath.Join(bin, "kubelet")); err != nil {
		t.Fatal(err)
	}
	if got, err := run(); err == nil || !strings.Contains(got, "links to /opt/kubelet, outside") {
		t.Errorf("%q, %v", got, err)
	}
}
