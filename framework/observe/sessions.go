package observe

import (
	"context"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/record"
	"github.com/holdfast-ha/holdfast/framework/workload/client"
)

// SessionLimit is how long a request through the balancer of etcd's members may take,
// with its connection.
const SessionLimit = 2 * time.Second

// sessions queries etcd through the balancer of its members, each time on a new connection, and
// records which one answered.
func (o *Observers) sessions(context.Context) ([]func(context.Context), error) {
	balanced, ok := o.cfg.Cluster.(framework.EtcdBalanced)
	if !ok {
		return nil, nil
	}
	config, ok := balanced.EtcdBalancerConfig()
	if !ok {
		return nil, nil
	}
	config.Logger = zap.NewNop()
	return []func(context.Context){func(ctx context.Context) {
		every(ctx, o.cfg.StatusInterval, func() {
			s := record.Session{Client: framework.HarnessHost, Start: o.w.Now()}
			member, err := askOnce(ctx, config)
			s.End = o.w.Now()
			switch {
			case ctx.Err() != nil:
				return
			case err != nil:
				s.Error = client.Shorten(err.Error())
			default:
				s.Member = id(member)
			}
			_ = o.w.Append(record.KindSession, s)
		})
	}}, nil
}

// askOnce returns the ID of the member that answers on a new connection. Any member
// can, a quorum or not.
func askOnce(ctx context.Context, config clientv3.Config) (member uint64, err error) {
	ctx, cancel := context.WithTimeout(ctx, SessionLimit)
	defer cancel()
	config.Context = ctx
	c, err := clientv3.New(config)
	if err != nil {
		return 0, err
	}
	defer c.Close()
	answer, err := c.Get(ctx, "health", clientv3.WithSerializable())
	if err != nil {
		return 0, err
	}
	return answer.Header.MemberId, nil
}
