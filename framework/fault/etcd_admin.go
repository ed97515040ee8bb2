package fault

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/members"
	"github.com/holdfast-ha/holdfast/framework/workload/client"
)

// onEtcd completes a fault that goes through etcd's own API.
func onEtcd(f *Fault, prepare func(Request) (Inject, error)) *Fault {
	if f.Targets == nil {
		f.Targets = []string{"etcd"}
	}
	f.Needs = append([]string{"EtcdAccess"}, f.Needs...)
	if f.Promised {
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
func (r Request) withMembers(inject func(context.Context, members.All) (Injection, error)) Inject {
	return func(ctx context.Context) (Injection, error) {
		all, err := openMembers(r.Cluster)
		if err != nil {
			return nil, r.beforeFault(err)
		}
		defer all.Close()
		return inject(ctx, all)
	}
}

// onMember calls do with a client of the member on a node.
func onMember(c framework.Cluster, node string, do func(members.Member) error) error {
	m, err := openMember(c, node)
	if err != nil {
		return err
	}
	defer m.Client.Close()
	return do(m)
}

// lookOn looks at the member on a node; it does not hold if the cluster gives no access to it.
func lookOn(c framework.Cluster, node string, l func(members.Member) (held bool, seen string)) (held bool, seen string) {
	err := onMember(c, node, func(m members.Member) error {
		held, seen = l(m)
		return nil
	})
	if err != nil {
		return false, err.Error()
	}
	return held, seen
}

// onMembers calls do with clients of all members.
func onMembers(c framework.Cluster, do func(members.All) error) error {
	all, err := openMembers(c)
	if err != nil {
		return err
	}
	defer all.Close()
	return do(all)
}

// lookAt looks at all members; it does not hold if that fails.
func lookAt(c framework.Cluster, l func(members.All) (held bool, seen string, err error)) (held bool, seen string) {
	err := onMembers(c, func(all members.All) (err error) {
		held, seen, err = l(all)
		return err
	})
	if err != nil {
		return false, err.Error()
	}
	return held, seen
}

// onAny asks one member after the other until one answers.
func onAny(ctx context.Context, c framework.Cluster, ask func(context.Context, members.Member) error) error {
	return onMembers(c, func(all members.All) error { return all.First(ctx, ask) })
}

// probeKey is written by proofs; it is not a key of Kubernetes.
const probeKey = "holdfast/probe"

// takesWrites checks whether any member accepts a write.
func takesWrites(ctx context.Context, all members.All) (bool, string) {
	var by string
	err := all.First(ctx, func(ctx context.Context, m members.Member) error {
		by = m.Node
		if _, err := m.Client.Put(ctx, probeKey, ""); err != nil {
			return err
		}
		_, err := m.Client.Delete(ctx, probeKey)
		return err
	})
	if err != nil {
		return false, fmt.Sprintf("a write to etcd: %v", err)
	}
	return true, fmt.Sprintf("etcd on %s accepts a write", by)
}

// etcdWrites checks whether the member on a node accepts a write.
func etcdWrites(ctx context.Context, c framework.Cluster, node string) (held bool, seen string) {
	return lookOn(c, node, func(m members.Member) (bool, string) { return takesWrites(ctx, members.All{m}) })
}

// metric reads one sample, without labels, from the metrics that a member
// serves on its client port.
func metric(ctx context.Context, m members.Member, access framework.EtcdAccess, name string) (float64, error) {
	ctx, cancel := context.WithTimeout(ctx, tryLimit)
	defer cancel()
	etcd, url, err := client.EtcdHTTP(access, m.Node)
	if err != nil {
		return 0, err
	}
	defer etcd.CloseIdleConnections()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/metrics", nil)
	if err != nil {
		return 0, err
	}
	resp, err := etcd.Do(req)
	if err != nil {
		return 0, fmt.Errorf("metrics of etcd on %s: %w", m.Node, err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 8<<20))
	if err != nil {
		return 0, fmt.Errorf("metrics of etcd on %s: %w", m.Node, err)
	}
	for line := range strings.Lines(string(body)) {
		if value, ok := strings.CutPrefix(line, name+" "); ok {
			return strconv.ParseFloat(strings.TrimSpace(value), 64)
		}
	}
	return 0, fmt.Errorf("metrics of etcd on %s (status %d) have no %s", m.Node, resp.StatusCode, name)
}

// mebibytes formats a size.
func mebibytes(n int64) string { return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20)) }

// putLarge writes a value and reports whether the member refused it for lack of
// space.
func putLarge(ctx context.Context, client *clientv3.Client, key string, value []byte) (full bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, moveLimit)
	defer cancel()
	_, err = client.Put(ctx, key, string(value))
	if members.RefusedWith(err, rpctypes.ErrNoSpace) {
		return true, nil
	}
	return false, err
}
