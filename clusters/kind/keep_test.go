package kind

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"k8s.io/client-go/tools/clientcmd"

	"github.com/holdfast-ha/holdfast/clusters"
	"github.com/holdfast-ha/holdfast/clusters/keeper"
	"github.com/holdfast-ha/holdfast/framework/scratch"
)

func TestKubeconfig(t *testing.T) {
	c := &Cluster{spec: clusters.Default(), kubeconfig: `apiVersion: v1
kind: Config
current-context: kind-demo
contexts: [{name: kind-demo, context: {cluster: kind-demo, user: kind-demo}}]
clusters: [{name: kind-demo, cluster: {server: "https://demo-external-load-balancer:6443", certificate-authority-data: QUJD}}]
users: [{name: kind-demo, user: {client-certificate-data: QUJD, client-key-data: QUJD}}]
`}
	for foreign, name := range map[bool]string{false: "", true: "kubernetes"} {
		c.foreign = foreign
		b, err := c.Kubeconfig("https://127.0.0.1:7")
		if err != nil {
			t.Fatal(err)
		}
		config, err := clientcmd.RESTConfigFromKubeConfig(b)
		if err != nil || config.Host != "https://127.0.0.1:7" || string(config.CertData) != "ABC" || config.ServerName != name {
			t.Errorf("%+v, %v", config, err)
		}
	}
}

func TestShellArgs(t *testing.T) {
	plain := shellArgs(&keeper.HostStatus{Name: "w"}, true, nil)
	if !slices.Contains(plain, "--tty") || slices.Contains(plain, "--env") || plain[len(plain)-3] != "sh" || plain[len(plain)-4] != "w" {
		t.Errorf("%q", plain)
	}
	node := strings.Join(shellArgs(&keeper.HostStatus{Name: "n", Etcd: &keeper.EtcdStatus{}}, false, []string{"id", "-u"}), " ")
	if strings.Contains(node, "--tty") || !strings.HasSuffix(node, " n id -u") || !strings.Contains(node, "--env ETCDCTL_ENDPOINTS=https://127.0.0.1:2379") {
		t.Errorf("%q", node)
	}
}

// engineOfTwo is a docker with a cluster of holdfast's, demo, and another tool's, other.
const engineOfTwo = `case "$1 $2" in
"info "*|"version "*) exit 1;;
"network ls") case "$*" in *=demo*) cat $DIR/network 2>/dev/null;; esac;;
"network rm") rm -f $DIR/network;;
"volume ls") cat $DIR/plan 2>/dev/null;;
"container inspect") echo "[{\"Name\":\"/other-control-plane\",\"Config\":{\"Labels\":{$(cat $DIR/labels 2>/dev/null)}},\"State\":{\"Running\":$([ -f $DIR/off ] && echo false || echo true)}}]";;
"exec other-control-plane") if [ -f $DIR/off ]; then exit 1; elif [ -f $DIR/agent ]; then echo agent; fi;;
"ps --all") case "$*" in *=demo*) [ -f $DIR/network ] && echo demo-control-plane;; *) echo other-control-plane;; esac;;
esac
true`

// What another made stays, as does what is another process's.
func TestRemove(t *testing.T) {
	dir := fakeDocker(t, engineOfTwo)
	t.Setenv("XDG_RUNTIME_DIR", t.TempDir())
	p := func(name string) (bool, error) { return remove(t.Context(), "unix:///x", name) }
	network := filepath.Join(dir, "network")
	if err := os.WriteFile(network, []byte("holdfast-demo\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if found, err := p("other"); found || err != nil {
		t.Errorf("another's: %t, %v", found, err)
	}
	lock, err := hold("demo")
	if err != nil {
		t.Fatal(err)
	}
	if found, err := p("demo"); found || err == nil || !strings.Contains(err.Error(), "belongs to another process") {
		t.Errorf("one whose process lives: %t, %v", found, err)
	}
	if err := lock.Close(); err != nil {
		t.Fatal(err)
	}
	if found, err := p("demo"); !found || err != nil {
		t.Errorf("one that was left: %t, %v", found, err)
	}
	if found, err := p("demo"); found || err != nil {
		t.Errorf("one that is gone: %t, %v", found, err)
	}
	if _, err := os.Stat(lockOf("demo")); err == nil {
		t.Error("its lock is left")
	}
	calls, err := os.ReadFile(filepath.Join(dir, "calls"))
	if err != nil || !strings.Contains(string(calls), "rm --force --volumes demo-control-plane") || strings.Contains(string(calls), "rm --force --volumes other") {
		t.Errorf("%s, %v", calls, err)
	}
}

// A lock that is taken just when its owner removes the file is taken again, on the file that others find.
func TestHoldRemoved(t *testing.T) {
	t.Setenv("XDG_RUNTIME_DIR", t.TempDir())
	lock, err := hold("demo")
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Remove(lock.Path()), lock.Close()); err != nil {
		t.Fatal(err)
	}
	// Opening a named pipe takes until a writer opens it as well, by its other name.
	other := filepath.Join(t.TempDir(), "pipe")
	if err := errors.Join(syscall.Mkfifo(other, 0o600), os.Link(other, lock.Path())); err != nil {
		t.Fatal(err)
	}
	held := make(chan error, 1)
	go func() {
		again, err := hold("demo")
		if err == nil && !scratch.HasPath(again, lockOf("demo")) {
			err = errors.New("the lock is on a file that is gone")
		}
		held <- err
	}()
	time.Sleep(200 * time.Millisecond)
	if err := os.Remove(lock.Path()); err != nil {
		t.Fatal(err)
	}
	for {
		w, err := os.OpenFile(other, os.O_WRONLY|syscall.O_NONBLOCK, 0)
		if err == nil {
			defer w.Close()
		} else if len(held) == 0 {
			time.Sleep(10 * time.Millisecond)
			continue
		}
		break
	}
	if err := <-held; err != nil {
		t.Error(err)
	}
}

// What holdfast left in a cluster of another tool is reported, also if no state of it is left.
func TestRemoveAttached(t *testing.T) {
	for name, test := range map[string]struct {
		files, labels, says string
		held                bool
	}{
		"nothing is left":           {},
		"it may be off":             {files: "off"},
		"an agent":                  {files: "agent", says: "other-control-plane has a node agent"},
		"an agent and the lock":     {files: "agent", held: true, says: "other-control-plane has a node agent"},
		"a change of the network":   {files: "plan", says: "its addresses are not all pinned"},
		"a node that was added":     {labels: `"dev.holdfast.added":"true"`, says: "other-control-plane is a node that was added"},
		"an added node that is off": {files: "off", labels: `"dev.holdfast.added":"true"`, says: "other-control-plane is a node that was added"},
	} {
		dir := fakeDocker(t, engineOfTwo)
		t.Setenv("XDG_RUNTIME_DIR", t.TempDir())
		if test.files != "" {
			touch(t, dir, test.files)
		}
		if err := os.WriteFile(filepath.Join(dir, "labels"), []byte(test.labels), 0o600); err != nil {
			t.Fatal(err)
		}
		if test.held {
			lock, err := hold("other")
			if err != nil {
				t.Fatal(err)
			}
			_ = lock.Close() // its process was killed
		}
		found, err := remove(t.Context(), "unix:///x", "other")
		if found || (err == nil) != (test.says == "") || err != nil && (!strings.Contains(err.Error(), test.says) || !strings.Contains(err.Error(), "`holdfast up --provider kind --attach other`")) {
			t.Errorf("%s: %t, %v", name, found, err)
		}
		if _, err := os.Stat(lockOf("other")); (err == nil) != test.held {
			t.Errorf("%s: there is a lock: %t", name, err == nil)
		}
	}
}
