package local

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"runtime"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/holdfast-ha/holdfast/clusters"
	"github.com/holdfast-ha/holdfast/clusters/internal/await"
	"github.com/holdfast-ha/holdfast/clusters/release"
	"github.com/holdfast-ha/holdfast/framework"
)

// BenchmarkUpgrade upgrades three control-plane nodes by one minor version, one after the other,
// while a client without retries reads through the load balancer on new connections: s/node,
// cpu-s/node of everything in the sandbox, floor-ratio (the time over that processor time by the
// number of cores; 1 would be perfect), and of the client failed-requests, their share in %, and
// gap-ms, the longest time without a successful answer. Drained is with API servers that finish
// what they have begun (shutdown-delay-duration), and ought to have no failed request.
func BenchmarkUpgrade(b *testing.B) {
	if _, err := release.Lookup(release.Kubernetes, olderKubernetes, release.Options{}); err != nil {
		b.Skip(err)
	}
	for name, args := range map[string]map[string]string{"drained": {"shutdown-delay-duration": "5s"}, "undrained": nil} {
		b.Run(name, func(b *testing.B) {
			var wall, cpu, gap time.Duration
			asked, failed := 0, 0
			for b.Loop() {
				b.StopTimer()
				c := newCluster(b, func(s *clusters.Cluster) {
					s.Spec.KubernetesVersion, s.Spec.Workers = olderKubernetes, 0
					s.Spec.ExtraArgs = clusters.ExtraArgs{framework.APIServer: {"shutdown-watch-termination-grace-period": "1s"}}.
						Merge(clusters.ExtraArgs{framework.APIServer: args})
				})
				p := probeEntrance(b, c)
				before, began := cpuTime(b), time.Now()
				b.StartTimer()
				for _, node := range c.UpgradeOrder() {
					if err := c.UpgradeNode(b.Context(), node, release.DefaultKubernetes); err != nil {
						b.Fatal(err)
					}
				}
				b.StopTimer()
				wall += time.Since(began)
				cpu += cpuTime(b) - before
				p.stop()
				asked, failed, gap = asked+p.asked, failed+p.failed, max(gap, p.gap)
				if err := c.Close(context.Background()); err != nil {
					b.Fatal(err)
				}
				b.StartTimer()
			}
			nodes := 3 * float64(b.N)
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(wall.Seconds()/nodes, "s/node")
			b.ReportMetric(cpu.Seconds()/nodes, "cpu-s/node")
			b.ReportMetric(float64(wall)/float64(cpu/time.Duration(runtime.NumCPU())), "floor-ratio")
			b.ReportMetric(float64(failed)/float64(b.N), "failed-requests")
			b.ReportMetric(float64(failed)/float64(asked)*100, "failed-%")
			b.ReportMetric(float64(gap.Milliseconds()), "gap-ms")
		})
	}
}

// entranceProbe is a client that reads through the load balancer again and again.
type entranceProbe struct {
	asked, failed int
	gap           time.Duration // the longest between two successful answers
	stop          func()
}

const probePause = 20 * time.Millisecond

func probeEntrance(b *testing.B, c *Cluster) *entranceProbe {
	b.Helper()
	config := rest.CopyConfig(c.Entrances()[0].Config)
	if c.Entrances()[0].Kind != framework.EntranceBalancer {
		b.Fatalf("the first entrance is %s", c.Entrances()[0].Name)
	}
	transport, err := rest.TransportFor(config)
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	p := &entranceProbe{}
	var done sync.WaitGroup
	done.Go(func() {
		client := &http.Client{Timeout: 5 * time.Second, Transport: transport}
		last := time.Now()
		for ctx.Err() == nil {
			client.CloseIdleConnections()
			_, err := await.Request(ctx, client, http.MethodGet, config.Host+"/api/v1/namespaces/default", "")
			if ctx.Err() != nil {
				return
			}
			p.asked++
			if err != nil {
				p.failed++
				fmt.Fprintf(os.Stderr, "failed request: %v\n", err)
			} else {
				p.gap = max(p.gap, time.Since(last))
				last = time.Now()
			}
			time.Sleep(probePause)
		}
	})
	p.stop = func() { cancel(); done.Wait() }
	return p
}
