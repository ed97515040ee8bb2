package kind

import (
	"crypto/tls"
	"net/netip"
	"os"
	"path/filepath"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/holdfast-ha/holdfast/framework/workload/etcdtest"
)

func TestMain(m *testing.M) {
	Main()
	etcdtest.ProxyMain(func() (clientv3.Config, error) {
		c := scaled("x-control-plane")
		c.etcdTLS = &tls.Config{MinVersion: tls.VersionTLS12}
		c.nodes[0].address = netip.MustParseAddr(etcdtest.OutsideAddress)
		return c.EtcdConfig("x-control-plane")
	})
	os.Exit(m.Run())
}

// The members are reached directly, whatever the environment: most proxies cannot reach containers.
func TestEtcdWithoutProxy(t *testing.T) { etcdtest.IgnoresProxy(t) }

// fakeDocker puts a script into the place of docker. It finds its arguments in "$@",
// and files of the test in $DIR.
func fakeDocker(t *testing.T, script string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	bin := filepath.Join(dir, "bin")
	if err := os.Mkdir(bin, 0o755); err != nil {
		t.Fatal(err)
	}
	text := "#!/bin/sh\nDIR=" + dir + "\necho \"$@\" >> $DIR/calls\n" + script
	if err := os.WriteFile(filepath.Join(bin, "docker"), []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	return dir
}
