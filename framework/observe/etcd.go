package observe

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/record"
	"github.com/holdfast-ha/holdfast/framework/workload/client"
)

// etcdTimeout is how long a member may take to answer.
const etcdTimeout = 2 * time.Second

// etcdMember is one member. It is queried over the client's own connection and without its
// retries: clientv3's Maintenance opens a new connection each time.
type etcdMember struct {
	node string
	*clientv3.Client
}

// openMembers returns the members on some nodes of a cluster; none if it gives no access.
func openMembers(c framework.Cluster, nodes []framework.Node) ([]etcdMember, error) {
	access, ok := c.(framework.EtcdAccess)
	if !ok {
		return nil, nil
	}
	var all []etcdMember
	for _, n := range nodes {
		if !slices.Contains(n.Components(), framework.Etcd) {
			continue
		}
		cl, err := client.NewEtcd(access, n.Name())
		if err != nil {
			closeMembers(all)
			return nil, err
		}
		all = append(all, etcdMember{n.Name(), cl})
	}
	return all, nil
}

func closeMembers(members []etcdMember) {
	for _, m := range members {
		_ = m.Close() // nothing can be done about it
	}
}

// etcd samples the status of each member, if the cluster gives access.
func (o *Observers) etcd(context.Context) ([]func(context.Context), error) {
	members, err := openMembers(o.cfg.Cluster, o.nodes())
	if err != nil {
		return nil, err
	}
	o.closers = append(o.closers, func() { closeMembers(members) })
	var loops []func(context.Context)
	for _, m := range members {
		meter, err := newDiskMeter(o.cfg.Cluster.(framework.EtcdAccess), m.node)
		if err != nil {
			return nil, err
		}
		o.closers = append(o.closers, meter.close)
		loops = append(loops, o.while(m.node, func(ctx context.Context) {
			var listed time.Time
			var more record.EtcdStatus // what is asked less often, until an entry has it
			answers := false
			every(ctx, o.cfg.StatusInterval, func() {
				if answers && time.Since(listed) >= o.cfg.MemberInterval && m.list(ctx, false, &more) == nil {
					more.Fsync, more.Commit = meter.read(ctx)
					listed = time.Now()
				}
				s := m.status(ctx) // last: it is the state at the time of the entry
				if answers = s.OK; answers {
					s.Fsync, s.Commit, s.Members, s.Learners = more.Fsync, more.Commit, more.Members, more.Learners
					more = record.EtcdStatus{}
				}
				more.Members, more.Learners = nil, nil // by the next answer they may have changed
				if ctx.Err() == nil {
					_ = o.w.Append(record.KindEtcd, s)
				}
			})
		}))
	}
	return loops, nil
}

// status asks a member for its local status; it does not need a quorum.
func (m etcdMember) status(ctx context.Context) record.EtcdStatus {
	ctx, cancel := context.WithTimeout(ctx, etcdTimeout)
	defer cancel()
	s := record.EtcdStatus{Node: m.node}
	res, err := pb.NewMaintenanceClient(m.ActiveConnection()).Status(ctx, &pb.StatusRequest{})
	if err != nil {
		s.Error = client.Shorten(err.Error())
		return s
	}
	s.OK = true
	s.Cluster, s.Member = id(res.Header.ClusterId), id(res.Header.MemberId)
	if res.Leader != 0 {
		s.Leader = id(res.Leader)
	}
	s.Learner, s.Term, s.RaftIndex, s.Applied = res.IsLearner, res.RaftTerm, res.RaftIndex, res.RaftAppliedIndex
	s.Revision, s.Version = res.Header.Revision, res.Version
	s.Alarms = alarms(res.Errors)
	return s
}

// alarms picks the alarms from a status's errors, where a member without a leader also reports
// that. Querying the alarms themselves needs a quorum.
func alarms(errors []string) (all []string) {
	for _, e := range errors {
		if strings.Contains(e, "alarm:") {
			all = append(all, strings.TrimSpace(e))
		}
	}
	return all
}

// list adds the members to a status as this member lists them: linearizably, or as it knows them
// itself.
func (m etcdMember) list(ctx context.Context, quorum bool, s *record.EtcdStatus) error {
	ctx, cancel := context.WithTimeout(ctx, etcdTimeout)
	defer cancel()
	res, err := pb.NewClusterClient(m.ActiveConnection()).MemberList(ctx, &pb.MemberListRequest{Linearizable: quorum})
	if err != nil {
		return fmt.Errorf("member list of etcd on %s: %w", m.node, err)
	}
	for _, member := range res.Members {
		if member.IsLearner {
			s.Learners = append(s.Learners, id(member.ID))
		} else {
			s.Members = append(s.Members, id(member.ID))
		}
	}
	return nil
}

// ListEtcd records, once, the status of each etcd member and its linearizable member list.
func ListEtcd(ctx context.Context, c framework.Cluster, w *record.Writer) error {
	members, err := openMembers(c, c.Nodes())
	if err != nil {
		return fmt.Errorf("failed to list the etcd members: %w", err)
	}
	defer closeMembers(members)
	for _, m := range members {
		s := m.status(ctx)
		if asked := w.Now(); s.OK && m.list(ctx, true, &s) == nil {
			s.Listed = asked
		}
		if err := w.Append(record.KindEtcd, s); err != nil {
			return err
		}
	}
	return nil
}

func id(n uint64) string { return strconv.FormatUint(n, 16) }

// HashEtcd asks every etcd member for the hash of its keys at one revision that all have, and
// records the responses. Hashes are comparable only between members that compacted at the same
// revision, so it retries until they have, or ctx ends. It is for a healthy cluster; a member
// that does not answer is an error.
func HashEtcd(ctx context.Context, c framework.Cluster, w *record.Writer) error {
	members, err := openMembers(c, c.Nodes())
	if err != nil {
		return fmt.Errorf("failed to compare the hashes of the etcd members: %w", err)
	}
	defer closeMembers(members)
	if len(members) == 0 {
		return fmt.Errorf("failed to compare the hashes of the etcd members: cluster %s gives no access to its etcd members", c.Name())
	}
	for {
		states, err := hashes(ctx, members)
		if err == nil {
			var failed error
			for _, s := range states {
				failed = errors.Join(failed, w.Append(record.KindEtcd, s))
			}
			return failed
		}
		if !client.Pause(ctx, 500*time.Millisecond) {
			return fmt.Errorf("failed to compare the hashes of the etcd members: %w (last try: %w)", context.Cause(ctx), err)
		}
	}
}

func hashes(ctx context.Context, members []etcdMember) ([]record.EtcdStatus, error) {
	states := make([]record.EtcdStatus, len(members))
	for i, m := range members {
		if states[i] = m.status(ctx); !states[i].OK {
			return nil, fmt.Errorf("etcd on %s: %s", m.node, states[i].Error)
		}
	}
	revision := slices.MinFunc(states, func(a, b record.EtcdStatus) int { return int(a.Revision - b.Revision) }).Revision
	answers := make([]*pb.HashKVResponse, len(members))
	failed := make([]error, len(members))
	var all sync.WaitGroup
	for i, m := range members {
		all.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, 5*etcdTimeout)
			defer cancel()
			answers[i], failed[i] = pb.NewMaintenanceClient(m.ActiveConnection()).HashKV(ctx, &pb.HashKVRequest{Revision: revision})
		})
	}
	all.Wait()
	for i, m := range members {
		if failed[i] != nil {
			return nil, fmt.Errorf("hash of etcd on %s at revision %d: %w", m.node, revision, failed[i])
		}
		if answers[i].CompactRevision != answers[0].CompactRevision {
			return nil, fmt.Errorf("etcd on %s is compacted at revision %d, on %s at %d",
				m.node, answers[i].CompactRevision, members[0].node, answers[0].CompactRevision)
		}
		states[i].Hash, states[i].HashRevision, states[i].HashCompacted = answers[i].Hash, revision, answers[i].CompactRevision
	}
	return states, nil
}
