package workload

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/record"
)

// etcdPrefix is the prefix of the traffic's keys in etcd, away from those of Kubernetes. The name
// of the collection, the group, and the key follow it.
const etcdPrefix = "/holdfast/traffic/"

// etcdTraffic is the profile of clients that go straight to the etcd members, each
// to one: reads of both kinds, puts, deletes, compare-and-swap transactions over
// one key or two, ranges, leases, and watches (etcdwatches.go).
type etcdTraffic struct {
	t        *Traffic
	settings EtcdSettings
	of       *collection
	watches  *watches
	rounds   int // how many times join was called

	mu      sync.Mutex
	members []*member // one for each client; guarded by mu
}

func newEtcdTraffic(t *Traffic) *etcdTraffic {
	s := t.cfg.Etcd
	p := &etcdTraffic{t: t, settings: s, of: &collection{name: "etcd-" + t.suffix}, watches: newWatches(t)}
	p.watches.settings.Lifetime = s.Lifetime
	for i := range s.Keys {
		p.of.keys = append(p.of.keys, fmt.Sprintf("%skey-%d", groupPrefix(p.of, groups[i%len(groups)]), i))
	}
	return p
}

// groupPrefix is the prefix of the keys of a group or, if it is empty, of all keys of the
// collection.
func groupPrefix(c *collection, group string) string {
	prefix := etcdPrefix + c.name + "/"
	if group != "" {
		prefix += group + "/"
	}
	return prefix
}

func groupOf(c *collection, key string) string {
	group, _, _ := strings.Cut(strings.TrimPrefix(key, groupPrefix(c, "")), "/")
	return group
}

func (p *etcdTraffic) start() error {
	p.t.joins = append(p.t.joins, func(node string) error {
		if !slices.Contains(framework.NodeNames(framework.NodesWith(p.t.cfg.Cluster, framework.Etcd)), node) {
			return nil
		}
		return p.join(node)
	})
	return p.join()
}

// join starts clients of the members of some nodes, or of all if there are none.
func (p *etcdTraffic) join(nodes ...string) error {
	for i := range p.settings.ClientsPerMember {
		members, err := openMembers(p.t.cfg.Cluster, p.t.w, fmt.Sprintf("%s/%d", ProfileEtcd, p.rounds*p.settings.ClientsPerMember+i), nodes...)
		if err != nil {
			return err
		}
		for _, m := range members {
			m.of, m.left = p.of, p.t.leaving(m.node)
			p.mu.Lock()
			n := len(p.members)
			p.members = append(p.members, m)
			p.mu.Unlock()
			random := p.t.random()
			c := &etcdClient{member: m, values: newValues(random, fmt.Sprintf("e%d", n), p.settings.ValueSize), known: map[string]record.Op{}}
			p.t.clients.Go(func() { p.t.loop(m.left, random, p.settings.Interval, c.act) })
		}
	}
	defer func() { p.rounds++ }()
	return p.startWatches(nodes)
}

// present returns one client for each member whose node has not left.
func (p *etcdTraffic) present() (members []*member) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, m := range p.members {
		if !m.gone() && !slices.ContainsFunc(members, func(other *member) bool { return other.node == m.node }) {
			members = append(members, m)
		}
	}
	return members
}

// finish does for the keys in etcd what the other profiles do for the registers:
// reads of what the traffic left, last writes, last reads, last lists, and the watches'
// time to show them. Then it deletes the keys.
func (p *etcdTraffic) finish(ctx context.Context) {
	defer closeAll(p.members)
	members := p.present()
	if len(members) == 0 {
		p.watches.finish(ctx)
		return
	}
	ends, tries := map[string]end{}, 0
	p.finalReads(ctx, members)
	limited, cancel := context.WithTimeout(ctx, p.t.final/3)
	defer cancel()
	for _, key := range p.of.keys {
		tryUntil(limited, func() bool {
			m := members[tries%len(members)]
			tries++
			op := m.put(limited, "final-write", key, fmt.Sprintf("final-%d", tries))
			if op.Outcome == record.OK {
				ends[key] = end{record.Number(op.Revision), op.Group}
			}
			return op.Outcome == record.OK
		})
	}
	p.of.close(ends)
	p.finalReads(ctx, members)
	p.watches.finish(ctx)
	for _, key := range p.of.keys {
		tryUntil(ctx, func() bool {
			m := members[tries%len(members)]
			tries++
			return m.delete(ctx, "cleanup", key).Outcome != record.Unknown
		})
	}
}

// finalReads reads and lists the keys through each member.
func (p *etcdTraffic) finalReads(ctx context.Context, members []*member) {
	limited, cancel := context.WithTimeout(ctx, p.t.final/3)
	defer cancel()
	var all sync.WaitGroup
	for _, m := range members {
		all.Go(func() {
			for _, key := range p.of.keys {
				tryUntil(limited, func() bool { return m.get(limited, "final-read", key, true, stepTimeout).Outcome == record.OK })
			}
			tryUntil(limited, func() bool {
				return m.list(limited, "final-read", listing{match: record.MatchUnset}).Outcome == record.OK
			})
		})
	}
	all.Wait()
}

type etcdClient struct {
	*member
	*values
	known    map[string]record.Op // what this client last saw of each key
	sequence int
}

func (c *etcdClient) act(ctx context.Context) {
	key := c.of.keys[c.random.IntN(len(c.of.keys))]
	switch dice := c.random.IntN(100); {
	case dice < 20:
		c.read(ctx, key, true)
	case dice < 30:
		c.read(ctx, key, false)
	case dice < 45:
		value, text := filled(c.next())
		c.learn(c.putText(ctx, "", key, value, text))
	case dice < 60:
		c.swap(ctx, key)
	case dice < 75:
		c.swap(ctx, key, c.other(key))
	case dice < 80:
		if c.delete(ctx, "", key).Outcome == record.OK {
			delete(c.known, key)
		}
	case dice < 94:
		c.list(ctx, "", c.choose())
	default:
		c.leased(ctx)
	}
}

func (c *etcdClient) other(key string) string {
	for {
		if other := c.of.keys[c.random.IntN(len(c.of.keys))]; other != key || len(c.of.keys) == 1 {
			return other
		}
	}
}

func (c *etcdClient) read(ctx context.Context, key string, linearizable bool) record.Op {
	op := c.get(ctx, "", key, linearizable, stepTimeout)
	c.learn(op)
	return op
}

func (c *etcdClient) learn(op record.Op) {
	if op.Outcome == record.OK {
		c.known[op.Key] = op
	}
}

// swap writes keys in one transaction, which takes effect only if each is still
// as the client reads it now, or, one time in four, as it saw it last.
func (c *etcdClient) swap(ctx context.Context, keys ...string) {
	if len(keys) == 2 && keys[0] == keys[1] {
		keys = keys[:1]
	}
	old := c.random.IntN(4) == 0
	var ops []record.Op
	var conditions []clientv3.Cmp
	var writes []clientv3.Op
	c.sequence++
	for _, key := range keys {
		seen, known := c.known[key]
		if !old || !known {
			if seen = c.read(ctx, key, true); seen.Outcome != record.OK {
				return
			}
		}
		value, text := filled(c.next())
		op := record.Op{Type: record.OpUpdate, Key: key, Value: value, Expect: seen.Revision}
		if len(keys) > 1 {
			op.Transaction = fmt.Sprintf("%s/%s/%d", c.of.name, c.member.name, c.sequence)
		}
		// A key that is not there has modification revision 0.
		if seen.Revision == "" {
			op.Type = record.OpCreate
		}
		ops = append(ops, op)
		conditions = append(conditions, clientv3.Compare(clientv3.ModRevision(key), "=", int64(record.Number(seen.Revision))))
		writes = append(writes, clientv3.OpPut(key, text))
	}
	for _, op := range c.transact(ctx, ops, conditions, writes) {
		c.learn(op)
	}
}

func (c *etcdClient) choose() listing {
	all := []record.ListMatch{record.MatchUnset, record.MatchAny, record.MatchExact}
	q := listing{match: all[c.random.IntN(len(all))]}
	if q.match == record.MatchExact {
		if q.asked = c.of.version(c.random); q.asked == "" {
			q.match = record.MatchUnset
		}
	}
	if c.random.IntN(4) == 0 {
		q.group = groups[c.random.IntN(len(groups))]
	}
	if c.random.IntN(2) == 0 {
		q.limit = 2
	}
	return q
}

// leaseSeconds is far longer than the steps of leased can take together, unless the harness or its
// machine is suspended.
const leaseSeconds = 60

// mayHaveExpired reports whether a lease that was requested at a time may have expired since. The
// monotonic clock stops while the machine sleeps, and the wall clock may be set.
func mayHaveExpired(requested time.Time) bool {
	return max(time.Since(requested), time.Since(requested.Round(0))) >= leaseSeconds*time.Second
}

// leased makes a key that lives as long as a lease, reads it, and revokes the
// lease, which deletes the key. The key is of no collection, and of this step alone.
func (c *etcdClient) leased(ctx context.Context) {
	m := *c.member
	m.of = nil
	limited, cancel := context.WithTimeout(ctx, stepTimeout)
	defer cancel()
	requested := time.Now()
	lease, err := m.Grant(limited, leaseSeconds)
	if err != nil {
		return
	}
	name, _ := c.next()
	key := etcdPrefix + "leased-" + c.of.name + "/" + name
	read := func() {
		// The end of a lease deletes the key without an operation.
		if op := m.read(ctx, "", key, true, stepTimeout); !mayHaveExpired(requested) {
			m.keep(op)
		}
	}
	op := m.putText(ctx, "", key, name, name, clientv3.WithLease(lease.ID))
	if op.Outcome == record.OK {
		read()
	}
	op = m.do(ctx, record.Op{Type: record.OpDelete, Key: key}, stepTimeout, func(ctx context.Context, op *record.Op) error {
		res, err := m.Revoke(ctx, lease.ID)
		if err == nil {
			op.Revision = strconv.FormatInt(res.Header.Revision, 10)
		}
		return err
	})
	if op.Outcome == record.OK {
		read()
	}
}

// transact makes one transaction and records its operations.
func (m *member) transact(ctx context.Context, ops []record.Op, conditions []clientv3.Cmp, writes []clientv3.Op) []record.Op {
	var res *clientv3.TxnResponse
	whole := m.call(ctx, record.Op{}, stepTimeout, func(ctx context.Context, op *record.Op) (err error) {
		res, err = m.Txn(ctx).If(conditions...).Then(writes...).Commit()
		return err
	})
	for i := range ops {
		op := &ops[i]
		m.own(op)
		op.Call, op.Return, op.Outcome, op.Error = whole.Call, whole.Return, whole.Outcome, whole.Error
		switch {
		case op.Outcome != record.OK:
		case !res.Succeeded:
			op.Outcome, op.Error = record.Refused, "the condition was not met"
			op.Header = strconv.FormatInt(res.Header.Revision, 10)
			if len(ops) == 1 && op.Type == record.OpCreate {
				op.Refusal = record.RefusedPresent
			} else if len(ops) == 1 {
				op.Refusal = record.RefusedVersion
			}
		default:
			op.Revision = strconv.FormatInt(res.Header.Revision, 10)
		}
		m.keep(*op)
	}
	return ops
}

// delete deletes a key. A key that does not exist is refused, as in Kubernetes.
func (m *member) delete(ctx context.Context, purpose, key string) record.Op {
	absent := false
	op := m.call(ctx, record.Op{Type: record.OpDelete, Key: key, Purpose: purpose}, stepTimeout, func(ctx context.Context, op *record.Op) error {
		res, err := m.Delete(ctx, key)
		if err == nil {
			absent, op.Revision = res.Deleted == 0, strconv.FormatInt(res.Header.Revision, 10)
		}
		return err
	})
	if absent {
		op.Outcome, op.Header, op.Revision, op.Error = record.Refused, op.Revision, "", "there is no such key"
		op.Refusal = record.RefusedAbsent
	}
	m.keep(op)
	return op
}

// list ranges over a collection or a group of it: unset is a linearizable range,
// any a serializable one, exact one at a revision.
func (m *member) list(ctx context.Context, purpose string, q listing) record.List {
	l := record.List{
		Client: m.name, Entrance: m.node, API: apiEtcd, Collection: m.of.name, Purpose: purpose,
		Group: q.group, Match: q.match, Asked: q.asked, Limit: q.limit,
	}
	prefix := groupPrefix(m.of, q.group)
	begin, end := prefix, clientv3.GetPrefixRangeEnd(prefix)
	at := int64(record.Number(q.asked))
	for more := true; more; {
		opts := []clientv3.OpOption{clientv3.WithRange(end), clientv3.WithLimit(int64(q.limit)), clientv3.WithRev(at)}
		if q.match == record.MatchAny {
			opts = append(opts, clientv3.WithSerializable())
		}
		var res *clientv3.GetResponse
		p := record.Page{Remaining: -1}
		op := m.call(ctx, record.Op{}, stepTimeout, func(ctx context.Context, _ *record.Op) (err error) {
			res, err = m.Get(ctx, begin, opts...)
			return err
		})
		p.Call, p.Return = op.Call, op.Return
		l.Outcome, l.Error, more = op.Outcome, op.Error, false
		if op.Outcome == record.OK {
			// The pages after the first are of its revision, like those of Kubernetes;
			// the answer's header has that of the store.
			at = cmp.Or(at, res.Header.Revision)
			p.Revision, p.Items, p.Remaining = strconv.FormatInt(at, 10), len(res.Kvs), int(res.Count)-len(res.Kvs)
			for _, kv := range res.Kvs {
				l.Items = append(l.Items, m.item(kv))
			}
			if p.Continued = res.More; p.Continued {
				more = true
				begin = string(res.Kvs[len(res.Kvs)-1].Key) + "\x00"
			}
		} else if strings.Contains(op.Error, "has been compacted") {
			l.Status = http.StatusGone
		}
		l.Pages = append(l.Pages, p)
	}
	l.Call, l.Return = l.Pages[0].Call, l.Pages[len(l.Pages)-1].Return
	_ = m.w.Append(record.KindList, l)
	if l.Outcome == record.OK {
		m.of.saw(l.Pages[0].Revision)
	}
	return l
}
