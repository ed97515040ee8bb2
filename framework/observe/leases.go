package observe

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/record"
	"github.com/holdfast-ha/holdfast/framework/workload/client"
)

// lease is the part of a coordination.k8s.io/v1 Lease that is recorded.
type lease struct {
	Kind     string
	Metadata struct{ Name, ResourceVersion string }
	Spec     struct {
		HolderIdentity       string
		LeaseDurationSeconds int
		LeaseTransitions     int
		AcquireTime          time.Time
		RenewTime            time.Time
		Strategy             string
	}
}

// sighting is the last known state of a lease.
type sighting struct {
	mu      sync.Mutex
	at      record.Nanos // when it was seen to exist
	renewal Renewal
	// The newest state, and when it was last requested.
	renew   time.Time
	version uint64
	asked   record.Nanos
}

// Renewal is what is known about the renewals of a lease.
type Renewal struct {
	// Holder is the identity in the lease; Node the node in it.
	Holder, Node string
	// At is a time before its last renewal: when the previous state was requested. 0 if none was
	// seen.
	At record.Nanos
	// Held reports that the lease was held at some time.
	Held bool
	// Coordinated reports that API servers choose the holder, as in coordinated leader election.
	Coordinated bool
}

// Renewal returns the observed renewals of an elected component's lease.
func (o *Observers) Renewal(lease string) Renewal {
	i := slices.Index(o.cfg.Leases, lease)
	if i < 0 {
		return Renewal{}
	}
	o.seen[i].mu.Lock()
	defer o.seen[i].mu.Unlock()
	return o.seen[i].renewal
}

// saw adds a state of the lease, whose holder is on a node. The holder's clock may differ, so a
// renewal is another time in a newer state.
func (s *sighting) saw(l lease, node string, call record.Nanos) {
	version, _ := strconv.ParseUint(l.Metadata.ResourceVersion, 10, 64)
	if version < s.version {
		return
	}
	r, holder := &s.renewal, l.Spec.HolderIdentity
	switch {
	case r.Holder != holder:
		*r = Renewal{Holder: holder, Node: node, Held: r.Held || holder != "", Coordinated: l.Spec.Strategy != ""}
	case version > s.version && holder != "" && !l.Spec.RenewTime.Equal(s.renew):
		r.At = s.asked
	}
	s.version, s.renew, s.asked = version, l.Spec.RenewTime, max(s.asked, call)
}

// leases samples the lease of each elected component through each entrance, with quorum
// reads. A lease that does not exist is recorded without a holder. All entrances read
// the same lease, so they take turns.
func (o *Observers) leases(context.Context) ([]func(context.Context), error) {
	var loops []func(context.Context)
	entrances := o.entrances()
	for turn, e := range entrances {
		api, err := o.api(e, client.Options{})
		if err != nil {
			return nil, err
		}
		for i, name := range o.cfg.Leases {
			loops = append(loops, o.while(e.Node, func(ctx context.Context) {
				if client.Pause(ctx, o.cfg.LeaseInterval*time.Duration(turn)/time.Duration(len(entrances))) {
					every(ctx, o.cfg.LeaseInterval, func() { o.sampleLease(ctx, api, e.Name, name, &o.seen[i]) })
				}
			}))
		}
	}
	return loops, nil
}

func (o *Observers) sampleLease(ctx context.Context, api *client.API, via, name string, seen *sighting) {
	ctx, cancel := context.WithTimeout(ctx, o.cfg.ReadTimeout)
	defer cancel()
	call := o.w.Now()
	a := api.Do(ctx, client.Request{Method: http.MethodGet, Path: "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/" + name})
	if a.Absent("leases", name) {
		seen.mu.Lock()
		defer seen.mu.Unlock()
		// If it was seen after the call, it may have been created since.
		if call > seen.at {
			seen.renewal = Renewal{Held: seen.renewal.Held}
			_ = o.w.Append(record.KindLease, record.Lease{Name: name, Via: via})
		}
		return
	}
	var l lease
	if a.Outcome() != record.OK || json.Unmarshal(a.Body, &l) != nil || l.Kind != "Lease" {
		return
	}
	node := o.holderNode(ctx, api, name, l.Spec.HolderIdentity)
	seen.mu.Lock()
	defer seen.mu.Unlock()
	seen.at = o.w.Now()
	seen.saw(l, node, call)
	_ = o.w.Append(record.KindLease, record.Lease{
		Name: name, Via: via,
		Holder: l.Spec.HolderIdentity, HolderNode: node,
		Acquire: l.Spec.AcquireTime, Renew: l.Spec.RenewTime, Duration: l.Spec.LeaseDurationSeconds,
		Transitions: l.Spec.LeaseTransitions, Revision: l.Metadata.ResourceVersion, Strategy: l.Spec.Strategy,
	})
}

// holderNode returns the node of a lease's holder. If a further elected component runs in a pod
// without host networking, the host name in the identity is the pod's.
func (o *Observers) holderNode(ctx context.Context, api *client.API, lease, identity string) string {
	nodes := o.cfg.Cluster.Nodes()
	host := framework.HolderNode(identity, nodes)
	isHost := slices.ContainsFunc(nodes, func(n framework.Node) bool { return n.Name() == host })
	if host == "" || isHost || slices.Contains(elected(), lease) {
		return host
	}
	if node, known := o.pods.Load(host); known {
		return node.(string)
	}
	var pod struct{ Spec struct{ NodeName string } }
	a := api.Do(ctx, client.Request{Method: http.MethodGet, Path: "/api/v1/namespaces/kube-system/pods/" + url.PathEscape(host)})
	switch {
	case a.Outcome() == record.OK && json.Unmarshal(a.Body, &pod) == nil && pod.Spec.NodeName != "":
		o.pods.Store(host, pod.Spec.NodeName)
		return pod.Spec.NodeName
	case a.Absent("pods", host):
		o.pods.Store(host, host)
	}
	return host
}
