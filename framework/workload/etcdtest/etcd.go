// Package etcdtest runs real etcd members inside a unit test, on loopback,
// without TLS and without syncing to disk.
package etcdtest

import (
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"

	"github.com/holdfast-ha/holdfast/framework"
)

// Cluster is an etcd cluster; its nodes, node-1 and so on, run nothing else.
type Cluster struct {
	members []*embed.Etcd
	stop    []func()
	urls    []url.URL
}

// New starts n members and waits until each has a leader. They stop with the test.
func New(t testing.TB, n int) *Cluster {
	t.Helper()
	c := &Cluster{urls: URLs(t, n)}
	peers := URLs(t, n)
	var initial []string
	for i := range n {
		initial = append(initial, fmt.Sprintf("node-%d=%s", i+1, &peers[i]))
	}
	for i := range n {
		cfg := embed.NewConfig()
		cfg.Name, cfg.Dir = fmt.Sprintf("node-%d", i+1), t.TempDir()
		cfg.InitialCluster = strings.Join(initial, ",")
		cfg.ListenPeerUrls, cfg.AdvertisePeerUrls = peers[i:i+1], peers[i:i+1]
		cfg.ListenClientUrls, cfg.AdvertiseClientUrls = c.urls[i:i+1], c.urls[i:i+1]
		cfg.LogLevel, cfg.UnsafeNoFsync = "fatal", true
		e, err := embed.StartEtcd(cfg)
		if err != nil {
			t.Fatalf("start etcd member %s: %v", cfg.Name, err)
		}
		stop := sync.OnceFunc(e.Close)
		t.Cleanup(stop)
		c.members, c.stop = append(c.members, e), append(c.stop, stop)
	}
	for i, e := range c.members {
		select {
		case <-e.Server.ReadyNotify():
		case <-time.After(30 * time.Second):
			t.Fatalf("etcd member %d has no leader after 30s", i+1)
		}
	}
	return c
}

// Stop stops the i-th member.
func (c *Cluster) Stop(i int) { c.stop[i]() }

// URLs returns unused addresses. Their ports are below the kernel's ephemeral range, so that
// concurrent outgoing connections never take them.
func URLs(t testing.TB, n int) (all []url.URL) {
	t.Helper()
	for range n {
		l, err := net.Listen("tcp", address())
		for range 100 {
			if err == nil {
				break
			}
			l, err = net.Listen("tcp", address())
		}
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close() // all at the end, so that they differ
		all = append(all, url.URL{Scheme: "http", Host: l.Addr().String()})
	}
	return all
}

// address is one of so many that tests at the same time hardly choose the same.
func address() string {
	return fmt.Sprintf("127.%d.%d.%d:%d", 1+rand.IntN(250), rand.IntN(250), 1+rand.IntN(250), 10_000+rand.IntN(20_000))
}

func (c *Cluster) EtcdConfig(node string) (clientv3.Config, error) {
	for i := range c.urls {
		if node == fmt.Sprintf("node-%d", i+1) {
			return clientv3.Config{Endpoints: []string{c.urls[i].String()}}, nil
		}
	}
	return clientv3.Config{}, fmt.Errorf("no node %q", node)
}

func (c *Cluster) Name() string                                        { return "etcdtest" }
func (c *Cluster) Entrances() []framework.Entrance                     { return nil }
func (c *Cluster) Settings() framework.Settings                        { return framework.Settings{} }
func (c *Cluster) Versions() map[string]map[framework.Component]string { return nil }

func (c *Cluster) Nodes() (all []framework.Node) {
	for i := range c.urls {
		all = append(all, node(fmt.Sprintf("node-%d", i+1)))
	}
	return all
}

type node string

func (n node) Name() string                      { return string(n) }
func (n node) Address() netip.Addr               { return netip.MustParseAddr("127.0.0.1") }
func (n node) Components() []framework.Component { return []framework.Component{framework.Etcd} }
