package fault

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/workload/client"
)

// carries reports whether packets of a protocol are impaired.
func (x *impairment) carries(protocols ...protocol) bool {
	ports := portList{protocols: protocols}.on(x.cluster)
	return slices.ContainsFunc(x.links, func(l framework.Link) bool {
		return len(l.Ports) == 0 || slices.ContainsFunc(ports, func(p uint16) bool { return slices.Contains(l.Ports, p) })
	})
}

// reach returns a check that packets reach the ends and come back. A member's linearizable read
// needs its peers, and /readyz the harness and etcd. If neither is available, the links
// themselves must carry packets.
func (x *impairment) reach() look {
	_, hasEtcd := x.cluster.(framework.EtcdAccess)
	etcd, api := x.carries(etcdPeer, etcdClient), x.carries(apiServer)
	if !etcd && !api { // another port, so both show that the links work
		etcd, api = true, true
	}
	entrance := func(e framework.Entrance) look {
		return func(ctx context.Context) (bool, string) { return ready(ctx, e) }
	}
	var looks []look
	for _, p := range x.ends {
		if p.name == framework.HarnessHost {
			for _, e := range x.cluster.Entrances() {
				if x.touches(hostOf(e)) {
					looks = append(looks, entrance(e))
				}
			}
			continue
		}
		if hasEtcd && etcd && slices.Contains(p.components, framework.Etcd) {
			looks = append(looks, func(ctx context.Context) (bool, string) { return etcdReads(ctx, x.cluster, p.name) })
		}
		for _, e := range x.cluster.Entrances() {
			serves := slices.Contains(p.components, framework.APIServer) || slices.Contains(p.components, framework.LoadBalancer)
			if api && serves && hostOf(e) == p.name {
				looks = append(looks, entrance(e))
			}
		}
	}
	if len(looks) > 0 {
		return all(looks...)
	}
	if reporter, ok := x.cluster.(framework.LinkReporter); ok {
		return x.delivers(reporter)
	}
	return func(context.Context) (bool, string) {
		return false, fmt.Sprintf("%s has no address or port on which a connection could show that packets pass", x.target.String())
	}
}

// touches reports whether a party is on one of the links.
func (x *impairment) touches(name string) bool {
	return slices.ContainsFunc(x.links, func(l framework.Link) bool { return l.From == name || l.To == name })
}

// hostOf returns the party of an entrance.
func hostOf(e framework.Entrance) string {
	if e.Kind == framework.EntranceBalancer {
		return framework.BalancerHost
	}
	return e.Node
}

// delivers returns a check that the links carry packets: more of them were delivered than at the
// first check.
func (x *impairment) delivers(reporter framework.LinkReporter) look {
	first, asked := uint64(0), false
	return func(ctx context.Context) (bool, string) {
		now := uint64(0)
		for _, l := range x.links {
			state, err := reporter.LinkState(ctx, l.From, l.To)
			if err != nil {
				return false, err.Error()
			}
			now += state.Delivered
		}
		if !asked {
			first, asked = now, true
		}
		return now > first, fmt.Sprintf("%d packets delivered on the %d links of %s since it was healed", now-first, len(x.links), x.target.String())
	}
}

// probes reports whether packets can be sent along the links that the impairment is about: it is
// about TCP alone if it resets, or is narrowed to connections.
func (x *impairment) probes() bool { return !x.asked.Reset && !x.asked.Established }

// probe sends packets along links that need more of them for a result, and along those that have
// carried none. They count at the next check.
func (x *impairment) probe(ctx context.Context, links []counted, wants int) {
	prober, ok := x.cluster.(framework.LinkProber)
	if !ok || !x.probes() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, knockLimit)
	defer cancel()
	var need []int
	for i, l := range links {
		if !x.mute[i] && (wants > 0 || l.Matched == 0) {
			need = append(need, i)
		}
	}
	errs := framework.Map(need, func(i int) error { return prober.ProbeLink(ctx, links[i].Link, max(wants, 1)) })
	for n, i := range need {
		if errs[n] == nil {
			x.probed[i] = true
		} else {
			x.mute[i] = true // for example, of a node without power
		}
	}
}

// Limits of one packet that the harness sends to be counted.
const (
	knockLimit = 250 * time.Millisecond
	knockPause = 10 * time.Millisecond
)

// knocker sends packets to one party on a kept connection.
type knocker struct {
	// knock sends a packet, and waits no longer than knockLimit for an answer.
	knock func(context.Context) (answered bool)
	close func()
}

// knockers returns one for each party at the end of a link of the harness.
func (x *impairment) knockers() []knocker {
	var knockers []knocker
	if !x.touches(framework.HarnessHost) {
		return nil
	}
	for _, name := range x.network.Parties() {
		if !slices.ContainsFunc(x.links, func(l framework.Link) bool {
			return l.From == name && l.To == framework.HarnessHost || l.To == name && l.From == framework.HarnessHost
		}) {
			continue
		}
		entrances := x.cluster.Entrances()
		i := slices.IndexFunc(entrances, func(e framework.Entrance) bool { return hostOf(e) == name })
		var k knocker
		var err error
		switch {
		case i >= 0 && x.carries(apiServer):
			k, err = knockAPI(entrances[i])
		case x.carries(etcdClient):
			k, err = knockEtcd(x.cluster, name)
		default:
			continue
		}
		if err == nil { // otherwise there is just one packet less to count
			knockers = append(knockers, k)
		}
	}
	return knockers
}

func knockAPI(e framework.Entrance) (knocker, error) {
	api, err := client.NewAPI(e.Config, client.Options{DialTimeout: dialLimit})
	if err != nil {
		return knocker{}, err
	}
	return knocker{
		close: api.Close,
		knock: func(ctx context.Context) bool {
			ctx, cancel := context.WithTimeout(ctx, knockLimit)
			defer cancel()
			return api.Do(ctx, client.Request{Method: http.MethodGet, Path: "/livez/ping"}).Err == nil
		},
	}, nil
}

func knockEtcd(c framework.Cluster, node string) (knocker, error) {
	m, err := openMember(c, node)
	if err != nil {
		return knocker{}, err
	}
	return knocker{
		close: func() { _ = m.Client.Close() },
		knock: func(ctx context.Context) bool {
			ctx, cancel := context.WithTimeout(ctx, knockLimit)
			defer cancel()
			// Status would dial again. Only this member answers this one.
			_, err := m.Client.Get(ctx, "health", clientv3.WithSerializable())
			return err == nil
		},
	}, nil
}
