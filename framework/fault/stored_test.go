package fault

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/holdfast-ha/holdfast/framework"
)

const kcmLease = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kube-controller-manager"

// candidate holds a lease as an instance does: it renews its lease, takes one without a holder
// and creates a missing one.
func (c apiCluster) candidate(t *testing.T) {
	c.Set(kcmLease, `{"metadata":{"name":"kube-controller-manager","uid":"one"},"spec":{"holderIdentity":"node-1_a","renewTime":"2026-01-01T00:00:00.000000Z","leaseDurationSeconds":15}}`)
	l := leaseObject{c, "kube-controller-manager"}
	done := make(chan struct{})
	ctx := t.Context()
	t.Cleanup(func() { <-done })
	go func() {
		defer close(done)
		for uid := 2; ctx.Err() == nil; uid++ {
			err := l.change(ctx, func(x *coordinationv1.Lease) error {
				if h := text(x.Spec.HolderIdentity); h != "node-1_a" && h != "" {
					return errConflict
				}
				now, name := metav1.NowMicro(), "node-1_a"
				x.Spec.HolderIdentity, x.Spec.RenewTime = &name, &now
				return nil
			})
			if err == errGone {
				body, _ := json.Marshal(&coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: l.name, UID: types.UID(strconv.Itoa(uid))}})
				_, _ = throughAny(ctx, c, http.MethodPost, strings.TrimSuffix(l.path(), "/"+l.name), body)
			}
			time.Sleep(20 * time.Millisecond)
		}
	}()
}

// Without an API server, the change must be made in etcd.
func TestLeaseStored(t *testing.T) {
	t.Parallel()
	c := operateEtcd(t)
	l := leaseObject{c, "kube-scheduler"}
	if _, _, err := l.read(t.Context()); err != errGone {
		t.Errorf("a lease that is not there: %v", err)
	}
	m, err := openMember(c, "node-1")
	if err != nil {
		t.Fatal(err)
	}
	defer m.Client.Close()
	name := stranger
	lease := &coordinationv1.Lease{TypeMeta: metav1.TypeMeta{APIVersion: "coordination.k8s.io/v1", Kind: "Lease"},
		ObjectMeta: metav1.ObjectMeta{Name: l.name, Namespace: "kube-system"}, Spec: coordinationv1.LeaseSpec{HolderIdentity: &name}}
	var value strings.Builder
	if err := leaseCodec().Encode(lease, &value); err != nil {
		t.Fatal(err)
	}
	if _, err := m.Client.Put(t.Context(), registry+l.key(), value.String()); err != nil {
		t.Fatal(err)
	}
	for _, n := range c.nodes {
		n.power(false)
	}
	for _, n := range c.nodes { // etcd answers, its API servers do not
		n.off = false
		n.spawn(framework.Etcd)
	}
	x := &theft{lease: l, stop: func() {}}
	if err := x.giveUp(t.Context()); err != nil {
		t.Fatal(err)
	}
	got, how, err := l.read(t.Context())
	if err != nil || text(got.Spec.HolderIdentity) != "" || *got.Spec.LeaseDurationSeconds != 1 || how != "in etcd" {
		t.Errorf("%v %s, %v", got, how, err)
	}
	if err := remove(t.Context(), c, l.path(), l.key()); err != nil {
		t.Fatal(err)
	}
	if _, _, err := l.read(t.Context()); err != errGone {
		t.Errorf("it is still there: %v", err)
	}
}

// An object whose creation succeeded through an API server that gave no answer is there.
func TestCreatedWithoutAnswer(t *testing.T) {
	c := newAPI(t)
	body := []byte(`{"metadata":{"name":"kube-controller-manager"}}`)
	create := func() error {
		_, err := throughAny(t.Context(), c, http.MethodPost, strings.TrimSuffix(kcmLease, "/kube-controller-manager"), body)
		return err
	}
	c.Server(0).Hook(func(w http.ResponseWriter, r *http.Request) bool {
		c.Set(kcmLease, string(body))
		w.WriteHeader(http.StatusGatewayTimeout)
		return true
	})
	if err := create(); err != nil {
		t.Error(err)
	}
	c.hookAll(nil)
	if err := create(); err != errConflict {
		t.Errorf("an object that was there: %v", err)
	}
}

// storedElsewhere has API servers that keep their objects under another prefix of etcd.
type storedElsewhere struct {
	*operatedEtcd
	api apiCluster
}

func (c storedElsewhere) Entrances() []framework.Entrance { return c.api.Entrances() }

func TestLeaseUnderAnotherPrefix(t *testing.T) {
	t.Parallel()
	l := leaseObject{storedElsewhere{operateEtcd(t), newAPI(t)}, "kube-controller-manager"}
	if _, _, err := l.read(t.Context()); err != errGone {
		t.Errorf("a lease that is not there: %v", err)
	}
	l.cluster.(storedElsewhere).api.Set(kcmLease, `{"spec":{"holderIdentity":"node-1_a"}}`)
	if got, how, err := l.read(t.Context()); err != nil || text(got.Spec.HolderIdentity) != "node-1_a" || how != "through the API" {
		t.Errorf("%v %s, %v", got, how, err)
	}
}

func TestLeaseCheck(t *testing.T) {
	c := newAPI(t)
	for _, f := range []*Fault{LeaseDelete, LeaseSteal} {
		for what, err := range map[string]error{
			"no time to live":   f.Check(c, component("node-1", framework.Scheduler), Params{}),
			"unknown parameter": f.Check(c, component("node-1", framework.Scheduler), Params{TTL: ttl, Values: map[string]string{"speed": "high"}}),
			"a whole node":      f.Check(c, wholeTarget("node-1"), Params{TTL: ttl}),
			"an API server":     f.Check(c, component("node-1", framework.APIServer), Params{TTL: ttl}),
			"an unknown node":   f.Check(c, component("node-9", framework.Scheduler), Params{TTL: ttl}),
		} {
			if err == nil {
				t.Errorf("%s: %s: accepted", f.Name, what)
			}
		}
	}
	if err := LeaseSteal.Check(c, component("node-1", framework.Scheduler), Params{TTL: ttl, Values: map[string]string{"renew": "often"}}); err == nil || !strings.Contains(err.Error(), "true or false") {
		t.Errorf("renew=often: %v", err)
	}
}
