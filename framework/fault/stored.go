package fault

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"

	clientv3 "go.etcd.io/etcd/client/v3"
	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"

	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/members"
	"github.com/holdfast-ha/holdfast/framework/record"
)

// The code below reads and writes Kubernetes objects through any API server or, if none answers,
// in etcd, since healing must not need an API server.

// registry is the prefix of the Kubernetes keys in etcd, unless the API servers are configured
// otherwise.
const registry = "/registry/"

var (
	// errGone reports that the object does not exist, which is an answer.
	errGone = errors.New("the object does not exist")
	// errConflict reports that another client changed the object in between.
	errConflict = errors.New("it was changed in between")
)

// refusedError is an unsuccessful response of an API server.
type refusedError struct {
	status int
	body   string
}

func (e *refusedError) Error() string { return fmt.Sprintf("status %d: %.200s", e.status, e.body) }

// throughAny makes a request of the API through the first entrance that answers. Unsuccessful
// responses are errors: errGone, errConflict or a *refusedError. Any other error says that no
// entrance answered.
func throughAny(ctx context.Context, c framework.Cluster, method, path string, object []byte) ([]byte, error) {
	var problems []error
	for _, e := range c.Entrances() {
		body, status, err := send(ctx, e, method, path, object)
		switch {
		case err == nil && status == http.StatusNotFound:
			return nil, errGone
		case err == nil && status == http.StatusConflict && method == http.MethodPost && len(problems) > 0:
			return body, nil // an earlier try has created it, although its answer was lost
		case err == nil && status == http.StatusConflict:
			return nil, errConflict
		case err == nil && status/100 == 2:
			return body, nil
		case err == nil && status < http.StatusInternalServerError && status != http.StatusTooManyRequests:
			return nil, &refusedError{status, string(body)}
		case err == nil:
			err = &refusedError{status, string(body)}
		}
		problems = append(problems, fmt.Errorf("through entrance %s: %w", e.Name, err))
	}
	if len(problems) == 0 {
		return nil, errors.New("the cluster has no entrance")
	}
	return nil, errors.Join(problems...)
}

// answered reports whether an API server answered, with success or not.
func answered(err error) bool {
	var refused *refusedError
	return err == nil || errors.Is(err, errGone) || errors.Is(err, errConflict) ||
		errors.As(err, &refused) && refused.status < http.StatusInternalServerError
}

// remove deletes an object through the API or, if no API server does it, its key in etcd. It does
// nothing if the object does not exist.
func remove(ctx context.Context, c framework.Cluster, path, key string) error {
	_, err := throughAny(ctx, c, http.MethodDelete, path, nil)
	if err == nil || errors.Is(err, errGone) {
		return nil
	}
	if _, ok := c.(framework.EtcdAccess); !ok {
		return fmt.Errorf("failed to delete %s: %w", path, err)
	}
	inEtcd := onAny(ctx, c, func(ctx context.Context, m members.Member) error {
		_, err := m.Client.Delete(ctx, registry+key)
		return err
	})
	if inEtcd != nil {
		return fmt.Errorf("failed to delete %s: %w; and its key in etcd: %w", path, err, inEtcd)
	}
	return nil
}

// leaseObject is a lease of kube-system.
type leaseObject struct {
	cluster framework.Cluster
	name    string
}

func (l leaseObject) path() string {
	return "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/" + l.name
}

func (l leaseObject) key() string { return "leases/kube-system/" + l.name }

// read returns the lease from etcd or, if the provider gives no access to etcd or no member
// answers, from the API; errGone if it does not exist. API servers may keep it under another prefix
// or in another etcd.
func (l leaseObject) read(ctx context.Context) (*coordinationv1.Lease, string, error) {
	var missing error
	if _, ok := l.cluster.(framework.EtcdAccess); ok {
		lease, err := l.stored(ctx)
		if err == nil {
			return lease, "in etcd", nil
		}
		missing = err
	}
	lease, err := l.get(ctx)
	if err != nil && errors.Is(missing, errGone) {
		return nil, "in etcd", errGone
	}
	return lease, "through the API", err
}

// get returns the lease from the API.
func (l leaseObject) get(ctx context.Context) (*coordinationv1.Lease, error) {
	body, err := throughAny(ctx, l.cluster, http.MethodGet, l.path(), nil)
	if err != nil {
		return nil, err
	}
	var lease coordinationv1.Lease
	if err := json.Unmarshal(body, &lease); err != nil {
		return nil, fmt.Errorf("lease kube-system/%s: %w", l.name, err)
	}
	return &lease, nil
}

// change changes the lease through the API, and retries on conflicts. The function may refuse
// with an error.
func (l leaseObject) change(ctx context.Context, change func(*coordinationv1.Lease) error) error {
	for {
		lease, err := l.get(ctx)
		if err != nil {
			return err
		}
		if err := change(lease); err != nil {
			return err
		}
		body, err := json.Marshal(lease)
		if err != nil {
			return err
		}
		if _, err = throughAny(ctx, l.cluster, http.MethodPut, l.path(), body); !errors.Is(err, errConflict) || ctx.Err() != nil {
			return err
		}
	}
}

// stored returns the lease from etcd.
func (l leaseObject) stored(ctx context.Context) (lease *coordinationv1.Lease, err error) {
	var answer *clientv3.GetResponse
	err = onAny(ctx, l.cluster, func(ctx context.Context, m members.Member) (err error) {
		answer, err = m.Client.Get(ctx, registry+l.key())
		return err
	})
	if err != nil {
		return nil, err
	}
	if len(answer.Kvs) == 0 {
		return nil, errGone
	}
	lease = &coordinationv1.Lease{}
	_, _, err = leaseCodec().Decode(answer.Kvs[0].Value, nil, lease)
	return lease, err
}

// leaseCodec reads leases as API servers store them.
func leaseCodec() *protobuf.Serializer {
	scheme := runtime.NewScheme()
	_ = coordinationv1.AddToScheme(scheme) // fails for a type registered twice only
	return protobuf.NewSerializer(scheme, scheme)
}

// held checks whether an instance other than the stranger holds and renews the lease.
func (l leaseObject) held(besides func(*coordinationv1.Lease) bool) look {
	var first *coordinationv1.Lease
	return func(ctx context.Context) (bool, string) {
		lease, how, err := l.read(ctx)
		name := "lease kube-system/" + l.name
		if err != nil {
			return false, fmt.Sprintf("%s %s: %v", name, how, err)
		}
		holder := text(lease.Spec.HolderIdentity)
		if holder == "" || lease.Spec.RenewTime == nil || besides(lease) {
			first = nil
			return false, fmt.Sprintf("%s %s has the holder %q", name, how, holder)
		}
		if first == nil || text(first.Spec.HolderIdentity) != holder {
			first = lease
		}
		renewed := !lease.Spec.RenewTime.Equal(first.Spec.RenewTime)
		return renewed, fmt.Sprintf("%s %s is held by %s, who renewed it at %s", name, how, holder, lease.Spec.RenewTime.Format("15:04:05.000"))
	}
}

// onLease completes a fault on the lease with which a component elects its active instance.
func onLease(f *Fault, prepare func(Request, leaseObject) (Inject, error)) *Fault {
	f.Targets = nil
	for _, k := range kinds() {
		if k.lease != "" {
			f.Targets = append(f.Targets, k.names[0])
		}
	}
	f.Example = "kcm/active" + f.Example
	f.Effects = does(record.EffectLease)
	f.Prepare = func(r Request) (Inject, error) {
		if _, _, err := r.holder(); err != nil {
			return nil, err
		}
		if err := r.checkOwner("Promiser"); err != nil {
			return nil, err
		}
		all := kinds()
		k := slices.IndexFunc(all, func(k kind) bool { return k.component == r.Target.Component })
		return prepare(r, leaseObject{r.Cluster, all[k].lease})
	}
	return f
}
