package observe

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"sync"
	"time"

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
	}
}

// sighting is when a lease was last seen to exist.
type sighting struct {
	mu sync.Mutex
	at record.Nanos
}

// leases samples the lease of each elected component through each entrance, with quorum
// reads. A lease that does not exist is recorded without a holder. All entrances read
// the same lease, so they take turns.
func (o *Observers) leases(context.Context) ([]func(context.Context), error) {
	var loops []func(context.Context)
	entrances := o.cfg.Cluster.Entrances()
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
		// Where it was seen after the call it may have been created since.
		if call > seen.at {
			_ = o.w.Append(record.KindLease, record.Lease{Name: name, Via: via})
		}
		return
	}
	var l lease
	if a.Outcome() != record.OK || json.Unmarshal(a.Body, &l) != nil || l.Kind != "Lease" {
		return
	}
	seen.mu.Lock()
	defer seen.mu.Unlock()
	seen.at = o.w.Now()
	_ = o.w.Append(record.KindLease, record.Lease{
		Name: name, Via: via,
		Holder: l.Spec.HolderIdentity, HolderNode: HolderNode(l.Spec.HolderIdentity),
		Acquire: l.Spec.AcquireTime, Renew: l.Spec.RenewTime, Duration: l.Spec.LeaseDurationSeconds,
		Transitions: l.Spec.LeaseTransitions, Revision: l.Metadata.ResourceVersion,
	})
}

// HolderNode takes the host name from a holder's identity. Elected components
// use "<host name>_<UUID>".
func HolderNode(identity string) string {
	if i := strings.LastIndexByte(identity, '_'); i >= 0 {
		return identity[:i]
	}
	return identity
}
