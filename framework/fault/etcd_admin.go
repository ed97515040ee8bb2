package fault

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/holdfast-ha/holdfast/framework"
)

// onEtcd completes a fault that goes through etcd's own API.
func onEtcd(f *Fault, prepare func(Request) (Inject, error)) *Fault {
	if f.Targets == nil {
		f.Targets = []string{"etcd"}
	}
	f.Needs = append([]string{"EtcdAccess"}, f.Needs...)
	if f.Undo != nil {
		f.Needs = append(f.Needs, promiserNeed)
	}
	f.Prepare = func(r Request) (Inject, error) {
		if _, _, err := r.holder(); err != nil {
			return nil, err
		}
		if _, err := onCluster[framework.EtcdAccess](r); err != nil {
			return nil, err
		}
		if err := r.checkOwner("EtcdAccess"); err != nil {
			return nil, err
		}
		return prepare(r)
	}
	return f
}

// beforeFault returns the error of a check before a fault.
func (r Request) beforeFault(err error) error {
	return fmt.Errorf("fault %s: before the fault: %w", r.Fault.Name, err)
}

// withMembers returns an injection that needs clients of all members.
func (r Request) withMembers(inject func(context.Context, members) (Injection, error)) Inject {
	return func(ctx context.Context) (Injection, error) {
		all, err := openMembers(r.Cluster)
		if err != nil {
			return nil, r.beforeFault(err)
		}
		defer all.close()
		return inject(ctx, all)
	}
}

// onMember calls do with a client of the member on a node.
func onMember(c framework.Cluster, node string, do func(member) error) error {
	m, err := openMember(c, node)
	if err != nil {
		return err
	}
	defer m.client.Close()
	return do(m)
}

// onMembers calls do with clients of all members.
func onMembers(c framework.Cluster, do func(members) error) error {
	all, err := openMembers(c)
	if err != nil {
		return err
	}
	defer all.close()
	return do(all)
}

// lookAt looks at all members; it does not hold if that fails.
func lookAt(c framework.Cluster, l func(members) (held bool, seen string, err error)) (held bool, seen string) {
	err := onMembers(c, func(all members) (err error) {
		held, seen, err = l(all)
		return err
	})
	if err != nil {
		return false, err.Error()
	}
	return held, seen
}

// onAny asks one member after the other until one answers.
func onAny(ctx context.Context, c framework.Cluster, ask func(context.Context, member) error) error {
	return onMembers(c, func(all members) error { return all.first(ctx, ask) })
}

// without returns the members on other nodes than this one.
func (all members) without(node string) members {
	return slices.DeleteFunc(slices.Clone(all), func(m member) bool { return m.node == node })
}

// on returns the member on a node, which must be among them.
func (all members) on(node string) member {
	return all[slices.IndexFunc(all, func(m member) bool { return m.node == node })]
}

// first calls ask on one member after the other until one succeeds.
func (all members) first(ctx context.Context, ask func(context.Context, member) error) error {
	var problems []error
	for _, m := range all {
		err := func() error {
			ctx, cancel := context.WithTimeout(ctx, tryLimit)
			defer cancel()
			return ask(ctx, m)
		}()
		if err == nil {
			return nil
		}
		problems = append(problems, fmt.Errorf("etcd on %s: %w", m.node, err))
	}
	return errors.Join(problems...)
}

// list returns the members of the cluster from the first one that answers. The list is
// linearizable.
func (all members) list(ctx context.Context) (found []*pb.Member, err error) {
	err = all.first(ctx, func(ctx context.Context, m member) error {
		answer, err := m.client.MemberList(ctx)
		if err == nil {
			found = answer.Members
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("listing the members: %w", err)
	}
	return found, nil
}

// alarms returns the active alarms from the first member that answers.
func (all members) alarms(ctx context.Context) (found []*pb.AlarmMember, err error) {
	err = all.first(ctx, func(ctx context.Context, m member) error {
		answer, err := m.client.AlarmList(ctx)
		if err == nil {
			found = answer.Alarms
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("listing the alarms: %w", err)
	}
	return found, nil
}

// refusedWith reports whether etcd answered with this error.
func refusedWith(err, refusal error) bool {
	return err != nil && errors.Is(rpctypes.Error(err), refusal)
}

// probeKey is written by proofs; it is not a key of Kubernetes.
const probeKey = "holdfast/probe"

// takesWrites checks whether any member accepts a write.
func (all members) takesWrites(ctx context.Context) (bool, string) {
	var by string
	err := all.first(ctx, func(ctx context.Context, m member) error {
		by = m.node
		if _, err := m.client.Put(ctx, probeKey, ""); err != nil {
			return err
		}
		_, err := m.client.Delete(ctx, probeKey)
		return err
	})
	if err != nil {
		return false, fmt.Sprintf("a write to etcd: %v", err)
	}
	return true, fmt.Sprintf("etcd on %s accepts a write", by)
}

// etcdWrites checks whether the member on a node accepts a write.
func etcdWrites(ctx context.Context, c framework.Cluster, node string) (held bool, seen string) {
	err := onMember(c, node, func(m member) error {
		held, seen = members{m}.takesWrites(ctx)
		return nil
	})
	if err != nil {
		return false, err.Error()
	}
	return held, seen
}

// metric reads one sample, without labels, from the metrics that a member
// serves on its client port.
func (m member) metric(ctx context.Context, access framework.EtcdAccess, name string) (float64, error) {
	ctx, cancel := context.WithTimeout(ctx, tryLimit)
	defer cancel()
	config, err := access.EtcdConfig(m.node)
	if err != nil {
		return 0, err
	}
	url := config.Endpoints[0]
	if !strings.Contains(url, "://") {
		url = "http://" + url
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/metrics", nil)
	if err != nil {
		return 0, err
	}
	transport := &http.Transport{TLSClientConfig: config.TLS, DisableKeepAlives: true}
	resp, err := transport.RoundTrip(req)
	if err != nil {
		return 0, fmt.Errorf("metrics of etcd on %s: %w", m.node, err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 8<<20))
	if err != nil {
		return 0, fmt.Errorf("metrics of etcd on %s: %w", m.node, err)
	}
	for line := range strings.Lines(string(body)) {
		if value, ok := strings.CutPrefix(line, name+" "); ok {
			return strconv.ParseFloat(strings.TrimSpace(value), 64)
		}
	}
	return 0, fmt.Errorf("metrics of etcd on %s (status %d) have no %s", m.node, resp.StatusCode, name)
}

// peersOf turns a list of members into the arguments to start a member. A member that never
// started has no name; unnamed gives it one.
func peersOf(list []*pb.Member, unnamed string) []framework.EtcdPeer {
	var peers []framework.EtcdPeer
	for _, m := range list {
		peers = append(peers, framework.EtcdPeer{Name: cmp.Or(m.Name, unnamed), URLs: m.PeerURLs})
	}
	return peers
}

// mebibytes formats a size.
func mebibytes(n int64) string { return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20)) }

// putLarge writes a value and reports whether the member refused it for lack of
// space.
func putLarge(ctx context.Context, client *clientv3.Client, key string, value []byte) (full bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, moveLimit)
	defer cancel()
	_, err = client.Put(ctx, key, string(value))
	if refusedWith(err, rpctypes.ErrNoSpace) {
		return true, nil
	}
	return false, err
}
