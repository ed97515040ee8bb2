package observe

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"

	"github.com/holdfast-ha/holdfast/framework/record"
	"github.com/holdfast-ha/holdfast/framework/record/recordtest"
	"github.com/holdfast-ha/holdfast/framework/workload/etcdtest"
)

// cutOff is a cluster of etcd members that stop answering once they have listed the members.
type cutOff struct {
	*etcdtest.Cluster
	left *atomic.Int32 // how many requests for the status are not answered; -1 before the list
}

func (c cutOff) EtcdConfig(node string) (clientv3.Config, error) {
	config, err := c.Cluster.EtcdConfig(node)
	config.DialOptions = append(config.DialOptions, grpc.WithChainUnaryInterceptor(
		func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
			if strings.HasSuffix(method, "/Status") && c.left.Load() > 0 {
				c.left.Add(-1)
				return errors.New("cut off")
			}
			err := invoke(ctx, method, req, reply, cc, opts...)
			if strings.HasSuffix(method, "/MemberList") {
				c.left.CompareAndSwap(-1, 5)
			}
			return err
		}))
	return config, err
}

// A list of members from before an outage is not recorded as one from after it: the members may have
// changed meanwhile.
func TestMembersFromBeforeOutage(t *testing.T) {
	c := cutOff{etcdtest.New(t, 1), new(atomic.Int32)}
	c.left.Store(-1)
	w, soFar, read := recordtest.Growing(t)
	o := &Observers{cfg: Config{Cluster: c, StatusInterval: 5 * time.Millisecond, MemberInterval: time.Hour}, w: w}
	loops, err := o.etcd(t.Context())
	if err != nil || len(loops) != 1 {
		t.Fatal(loops, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	o.running.Go(func() { loops[0](ctx) })
	waitFor(t, "an answer after the outage", func() bool {
		all := soFar().Etcd
		return slices.ContainsFunc(all, func(e record.Timed[record.EtcdStatus]) bool { return !e.V.OK }) && all[len(all)-1].V.OK
	})
	cancel()
	o.running.Wait()
	for _, end := range o.closers {
		end()
	}
	after := 0
	failed := false
	for _, e := range read().Etcd {
		switch failed = failed || !e.V.OK; {
		case !failed || !e.V.OK:
		case len(e.V.Members) > 0:
			t.Errorf("after the outage: %+v", e.V)
		default:
			after++
		}
	}
	if after == 0 {
		t.Error("no answer after the outage")
	}
}

// asked is a cluster of etcd members that counts the linearizable lists of members asked for.
type asked struct {
	*etcdtest.Cluster
	linearizable *atomic.Int32
}

func (c asked) EtcdConfig(node string) (clientv3.Config, error) {
	config, err := c.Cluster.EtcdConfig(node)
	config.DialOptions = append(config.DialOptions, grpc.WithChainUnaryInterceptor(
		func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
			if list, ok := req.(*pb.MemberListRequest); ok && list.Linearizable {
				c.linearizable.Add(1)
			}
			return invoke(ctx, method, req, reply, cc, opts...)
		}))
	return config, err
}

// Judges take a list with the time at which it was asked for as no older than that.
func TestListEtcd(t *testing.T) {
	c := asked{etcdtest.New(t, 2), new(atomic.Int32)}
	w, _, read := recordtest.Growing(t)
	before := w.Now()
	if err := ListEtcd(t.Context(), c, w); err != nil {
		t.Fatal(err)
	}
	all := read().Etcd
	for _, e := range all {
		if len(e.V.Members) != 2 || e.V.Listed <= before || e.V.Listed > e.At {
			t.Errorf("asked after %d, recorded at %d: %+v", before, e.At, e.V)
		}
	}
	if len(all) != 2 || c.linearizable.Load() != 2 {
		t.Errorf("%d entries, %d linearizable lists", len(all), c.linearizable.Load())
	}
}
