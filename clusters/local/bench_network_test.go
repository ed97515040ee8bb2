package local

import (
	"context"
	"net"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/holdfast-ha/holdfast/framework/fault"
)

// BenchmarkNetworkFaults measures, for each fault of the network and with
// traffic under way, the time from its call to the first packet that it is seen
// to have impaired (goal: at most 5 ms, but for latency, which proves itself on
// packets that have gone on), and from the call of its healing to the proof of
// that: a request that was answered, and counters that stood still for 20 ms.
func BenchmarkNetworkFaults(b *testing.B) {
	c := benchCluster(b, 3)
	defer c.Close(context.Background())
	node := c.Nodes()[1]
	ctx, cancel := context.WithCancel(b.Context())
	var traffic sync.WaitGroup
	defer traffic.Wait()
	defer cancel()
	// Between the harness and the node, and between the node and its peers.
	traffic.Go(func() {
		for ctx.Err() == nil {
			conn, err := net.DialTimeout("tcp", hostPort(node.Address(), 6443), 5*time.Millisecond)
			if err == nil {
				_ = conn.Close()
			}
			time.Sleep(500 * time.Microsecond)
		}
	})
	config, err := c.EtcdConfig(node.Name())
	if err != nil {
		b.Fatal(err)
	}
	client, err := clientv3.New(config)
	if err != nil {
		b.Fatal(err)
	}
	defer client.Close()
	traffic.Go(func() {
		for ctx.Err() == nil {
			short, cancel := context.WithTimeout(ctx, 20*time.Millisecond)
			_, _ = client.Get(short, "health")
			cancel()
		}
	})
	for _, f := range []struct {
		fault  *fault.Fault
		values map[string]string
	}{
		{fault.Bandwidth, nil}, {fault.BlackHole, map[string]string{"established": "true"}}, {fault.Corrupt, map[string]string{"share": "50%"}},
		{fault.Cut, nil}, {fault.Duplicate, map[string]string{"share": "50%"}}, {fault.Isolate, nil}, {fault.Latency, map[string]string{"delay": "1ms"}},
		{fault.Loss, map[string]string{"share": "50%"}}, {fault.Reorder, map[string]string{"share": "50%"}}, {fault.Reset, nil}, {fault.Split, nil},
	} {
		b.Run(f.fault.Name, func(b *testing.B) { benchFault(b, c, f.fault, "node/2", f.values, 20) })
	}
}
