package local

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/holdfast-ha/holdfast/clusters/local/disk"
	"github.com/holdfast-ha/holdfast/clusters/sandbox"
)

// startEtcd starts an etcd of one member and returns a client of it.
func startEtcd(b *testing.B, data string) *clientv3.Client {
	b.Helper()
	var urls []string
	for range 2 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			b.Fatal(err)
		}
		urls = append(urls, "http://"+l.Addr().String())
		_ = l.Close()
	}
	exe, err := os.Executable()
	if err != nil {
		b.Fatal(err)
	}
	log, err := os.Create(filepath.Join(b.TempDir(), "etcd.log"))
	if err != nil {
		b.Fatal(err)
	}
	defer log.Close()
	cmd := &exec.Cmd{Path: exe, Stdout: log, Stderr: log, Args: []string{roleEtcd, "--data-dir=" + data,
		"--listen-client-urls=" + urls[0], "--advertise-client-urls=" + urls[0], "--listen-peer-urls=" + urls[1],
		"--initial-advertise-peer-urls=" + urls[1], "--initial-cluster=default=" + urls[1]}}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	client, err := clientv3.New(clientv3.Config{Endpoints: urls[:1], Logger: zap.NewNop()})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = client.Close() })
	b.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return client
}

// BenchmarkEtcdPut measures one put into an etcd of one member, with the
// pass-through under its data and without it, in turns: µs are medians, ratio is
// the one over the other.
func BenchmarkEtcdPut(b *testing.B) {
	if err := disk.Available(); err != nil {
		b.Skip(err)
	}
	for _, on := range []string{"tmpfs", "disk"} {
		b.Run(on, func(b *testing.B) {
			dir := b.TempDir()
			if on == "tmpfs" {
				dir = filepath.Join(sandbox.Dir(), "bench")
				defer os.RemoveAll(dir)
			}
			mount := filepath.Join(dir, "mount")
			if err := os.MkdirAll(mount, 0o755); err != nil {
				b.Fatal(err)
			}
			p, err := disk.Start(roleDisk, disk.ServeConfig{Config: disk.Config{Mount: mount, Backing: filepath.Join(dir, "backing")},
				Socket: filepath.Join(dir, "disk.sock")}, os.Stderr)
			if err != nil {
				b.Fatal(err)
			}
			defer func() {
				if err := p.Stop(); err != nil {
					b.Error(err)
				}
			}()
			clients := []*clientv3.Client{startEtcd(b, filepath.Join(dir, "plain")), startEtcd(b, filepath.Join(mount, "etcd"))}
			took := make([][]time.Duration, len(clients))
			value := strings.Repeat("x", 1<<10)
			put := func(i, n int) time.Duration {
				ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
				defer cancel()
				began := time.Now()
				if _, err := clients[i].Put(ctx, fmt.Sprintf("key-%d", n), value); err != nil {
					b.Fatal(err)
				}
				return time.Since(began)
			}
			for i := range clients {
				put(i, 0) // etcd is up, and its connection open
			}
			for b.Loop() {
				for n := range 100 {
					for i := range clients {
						took[i] = append(took[i], put(i, n))
					}
				}
			}
			median := func(d []time.Duration) float64 {
				slices.Sort(d)
				return float64(d[len(d)/2].Nanoseconds()) / 1e3
			}
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(median(took[0]), "plain-µs")
			b.ReportMetric(median(took[1]), "fuse-µs")
			b.ReportMetric(median(took[1])/median(took[0]), "ratio")
		})
	}
}
