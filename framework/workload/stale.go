package workload

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/record"
	"github.com/holdfast-ha/holdfast/framework/workload/client"
)

const (
	staleKey    = "/holdfast/stale"
	crossPrefix = "/holdfast/cross/"
	// staleLimit is how long StaleRead tries to write through the majority.
	staleLimit = 30 * time.Second
	// staleTimeout is how long a read on an isolated member may take.
	staleTimeout = 3 * time.Second
)

// CrossMember puts a unique value of /holdfast/cross/<node> through each etcd member and reads it
// linearizably through each other one (purpose "cross-member"). A put that is not acknowledged is
// retried, 5 times.
func CrossMember(ctx context.Context, c framework.Cluster, w *record.Writer) error {
	members, err := openMembers(c, w, "cross-member")
	if err != nil {
		return fmt.Errorf("cross-member: %w", err)
	}
	defer closeAll(members)
	for _, a := range members {
		key := crossPrefix + a.node
		op, err := putUntilAcknowledged(ctx, []*member{a}, "cross-member", key, stepTries)
		if err != nil {
			return fmt.Errorf("cross-member: %w", err)
		}
		for _, b := range members {
			if a != b {
				b.get(ctx, "cross-member", op.Key, true, stepTimeout)
			}
		}
	}
	return members[0].w.Err()
}

// PrepareStale puts a value of /holdfast/stale and reads it linearizably through
// every member, so that every member has it (purpose "stale-prepare"). It comes
// before the isolation that StaleRead is about.
func PrepareStale(ctx context.Context, c framework.Cluster, w *record.Writer) error {
	members, err := openMembers(c, w, "stale")
	if err != nil {
		return fmt.Errorf("failed to prepare a stale read: %w", err)
	}
	defer closeAll(members)
	op, err := putUntilAcknowledged(ctx, members, "stale-prepare", staleKey, stepTries*len(members))
	if err != nil {
		return fmt.Errorf("failed to prepare a stale read: %w", err)
	}
	for _, m := range members {
		if got := m.get(ctx, "stale-prepare", staleKey, true, stepTimeout); got.Outcome != record.OK {
			return fmt.Errorf("failed to prepare a stale read: %s=%s cannot be read through the member on %s: %s", staleKey, op.Value, m.node, got.Error)
		}
	}
	return members[0].w.Err()
}

// StaleRead is for the time in which the member on node is isolated. It puts a newer value of
// /holdfast/stale through the other members, trying for 30 s until one acknowledges it (purpose
// "stale-write"), then reads it on the isolated member: serializably (purpose "stale-read"),
// linearizably, with a timeout of 3 s (purpose "stale-read-linearizable"), and serializably
// again, to show that the old data stays.
func StaleRead(ctx context.Context, c framework.Cluster, node string, w *record.Writer) error {
	members, err := openMembers(c, w, "stale")
	if err != nil {
		return fmt.Errorf("stale read: %w", err)
	}
	defer closeAll(members)
	i := slices.IndexFunc(members, func(m *member) bool { return m.node == node })
	if i < 0 {
		return fmt.Errorf("stale read: no etcd member on node %q", node)
	}
	isolated := members[i]
	majority := slices.Delete(slices.Clone(members), i, i+1)
	if len(majority) == 0 {
		return fmt.Errorf("stale read: %s has the only etcd member", node)
	}
	limited, cancel := context.WithTimeout(ctx, staleLimit)
	defer cancel()
	if _, err := putUntilAcknowledged(limited, majority, "stale-write", staleKey, 0); err != nil {
		return fmt.Errorf("stale read: %w", err)
	}
	isolated.get(ctx, "stale-read", staleKey, false, staleTimeout)
	isolated.get(ctx, "stale-read-linearizable", staleKey, true, staleTimeout)
	isolated.get(ctx, "stale-read", staleKey, false, staleTimeout)
	return isolated.w.Err()
}

// putUntilAcknowledged puts a new value through each member in turn until one acknowledges it, at
// most that many times (0: until ctx ends).
func putUntilAcknowledged(ctx context.Context, members []*member, purpose, key string, tries int) (record.Op, error) {
	for n := 0; ; n++ {
		m := members[n%len(members)]
		op := m.put(ctx, purpose, key, fmt.Sprintf("%s-%s", m.node, fresh()))
		if op.Outcome == record.OK {
			return op, nil
		}
		if n+1 == tries || !client.Pause(ctx, 200*time.Millisecond) {
			return op, fmt.Errorf("no put of %s was acknowledged in %d tries; through %s: %s", key, n+1, m.node, op.Error)
		}
	}
}

// member is a client of one etcd member; its operations are recorded.
type member struct {
	*clientv3.Client
	w    *record.Writer
	node string
	name string          // of the client
	of   *collection     // nil for none
	left <-chan struct{} // closed when its node has left; nil if that is not known
}

// gone implements way.
func (m *member) gone() bool { return closed(m.left) }

// openMembers opens a client for each etcd member, or for those of some nodes only.
func openMembers(c framework.Cluster, w *record.Writer, name string, nodes ...string) ([]*member, error) {
	access, ok := c.(framework.EtcdAccess)
	if !ok {
		return nil, fmt.Errorf("cluster %s gives no access to its etcd members", c.Name())
	}
	var all []*member
	for _, n := range framework.NodesWith(c, framework.Etcd) {
		if len(nodes) > 0 && !slices.Contains(nodes, n.Name()) {
			continue
		}
		cl, err := client.NewEtcd(access, n.Name())
		if err != nil {
			closeAll(all)
			return nil, err
		}
		all = append(all, &member{Client: cl, w: w, node: n.Name(), name: name + "/" + n.Name()})
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("no node of cluster %s runs etcd", c.Name())
	}
	return all, nil
}

func closeAll[C interface{ close() }](all []C) {
	for _, c := range all {
		c.close()
	}
}

func (m *member) close() { _ = m.Close() } // nothing can be done about it

func (m *member) put(ctx context.Context, purpose, key, value string) record.Op {
	return m.putText(ctx, purpose, key, value, value)
}

// putText puts a text, which the record stores as value.
func (m *member) putText(ctx context.Context, purpose, key, value, text string, opts ...clientv3.OpOption) record.Op {
	op := record.Op{Type: record.OpPut, Key: key, Value: value, Purpose: purpose}
	return m.do(ctx, op, stepTimeout, func(ctx context.Context, op *record.Op) error {
		res, err := m.Put(ctx, key, text, opts...)
		if err == nil {
			op.Revision = strconv.FormatInt(res.Header.Revision, 10)
		}
		return err
	})
}

func (m *member) get(ctx context.Context, purpose, key string, linearizable bool, timeout time.Duration) record.Op {
	op := m.read(ctx, purpose, key, linearizable, timeout)
	m.keep(op)
	return op
}

// read makes a request for a key, and does not record it.
func (m *member) read(ctx context.Context, purpose, key string, linearizable bool, timeout time.Duration) record.Op {
	op := record.Op{Type: record.OpGet, Consistency: "linearizable", Key: key, Purpose: purpose}
	var opts []clientv3.OpOption
	if !linearizable {
		op.Consistency = "serializable"
		opts = append(opts, clientv3.WithSerializable())
	}
	return m.call(ctx, op, timeout, func(ctx context.Context, op *record.Op) error {
		res, err := m.Get(ctx, key, opts...)
		if err != nil {
			return err
		}
		op.Header = strconv.FormatInt(res.Header.Revision, 10)
		if len(res.Kvs) > 0 {
			kv := res.Kvs[0]
			op.Found, op.Value, op.Revision = true, valueOf(string(kv.Value)), strconv.FormatInt(kv.ModRevision, 10)
		}
		return nil
	})
}

// do makes one request and records the operation.
func (m *member) do(ctx context.Context, op record.Op, timeout time.Duration, call func(context.Context, *record.Op) error) record.Op {
	op = m.call(ctx, op, timeout, call)
	m.keep(op)
	return op
}

// call makes one request and completes the operation.
func (m *member) call(ctx context.Context, op record.Op, timeout time.Duration, call func(context.Context, *record.Op) error) record.Op {
	m.own(&op)
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	op.Call = m.w.Now()
	err := call(ctx, &op)
	op.Return = m.w.Now()
	op.Outcome = client.EtcdOutcome(err)
	if err != nil {
		op.Error = client.Shorten(err.Error())
	}
	return op
}

// own sets the client of an operation.
func (m *member) own(op *record.Op) {
	op.Client, op.Entrance, op.API = m.name, m.node, apiEtcd
	if m.of != nil {
		op.Collection, op.Group = m.of.name, groupOf(m.of, op.Key)
	}
}

func (m *member) keep(op record.Op) {
	_ = m.w.Append(record.KindOp, op)
	if m.of != nil {
		m.of.saw(op.Revision)
	}
}
