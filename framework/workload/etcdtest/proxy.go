package etcdtest

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// OutsideAddress is an address for a member that no machine has (RFC 5737). A proxy would be used for it,
// other than for a loopback address.
const OutsideAddress = "192.0.2.1"

const proxyRole = "HOLDFAST_ETCDTEST_PROXY"

// ProxyMain is the part of IgnoresProxy in a process of its own, since a process reads the proxies of its
// environment once. Call it first in TestMain, with the configuration for a member at
// OutsideAddress.
func ProxyMain(config func() (clientv3.Config, error)) {
	if os.Getenv(proxyRole) == "" {
		return
	}
	if err := askOutside(config); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

func askOutside(config func() (clientv3.Config, error)) error {
	cfg, err := config()
	if err != nil {
		return err
	}
	req, err := http.NewRequest(http.MethodGet, "https://"+OutsideAddress, nil)
	if err != nil {
		return err
	}
	if proxy, err := http.ProxyFromEnvironment(req); proxy == nil {
		return fmt.Errorf("the environment has no proxy: %w", err)
	}
	client, err := clientv3.New(cfg)
	if err != nil {
		return err
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if _, err := client.Status(ctx, cfg.Endpoints[0]); err == nil {
		return fmt.Errorf("a member answers at %s", cfg.Endpoints[0])
	}
	return nil
}

// IgnoresProxy checks that the clients of ProxyMain do not use a proxy from the environment.
func IgnoresProxy(t *testing.T) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	var used atomic.Int32
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			used.Add(1)
			_ = conn.Close()
		}
	}()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), proxyRole+"=1", "HTTPS_PROXY=http://"+l.Addr().String(), "https_proxy=", "NO_PROXY=", "no_proxy=")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if n := used.Load(); n > 0 {
		t.Errorf("the client connected to the proxy of the environment %d times", n)
	}
}
