package fault

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/record"
)

// onNames completes a fault that misleads hosts. disturb returns what DNS should do, and whether
// a lookup shows it.
func onNames(f *Fault, disturb func(Request) (framework.NameDisturbance, func(framework.Lookup) bool)) *Fault {
	f.Targets = []string{"node", "zone", "nodes", "workers", "balancer (its machine)", "harness (where the DNS server runs; hits every host)"}
	f.Params = append(f.Params, textParam("names", "comma-separated names").unless("every name"))
	f.Needs = []string{"DNSFaulter"}
	f.Effects = does(record.EffectNames)
	f.Prepare = func(r Request) (Inject, error) {
		m, err := r.misleading()
		if err != nil {
			return nil, err
		}
		names := m.disturb.Names
		m.disturb, m.led = disturb(r)
		m.disturb.Names = names
		return m.inject, nil
	}
	return f
}

// misleading is DNS that misleads hosts.
type misleading struct {
	target  Target
	what    string
	ttl     time.Duration
	faulter framework.DNSFaulter
	hosts   []string
	ask     map[string]string // by host, the name that proofs look up on it
	disturb framework.NameDisturbance
	// led reports whether a lookup has the result that the fault should cause.
	led func(framework.Lookup) bool
}

// misleading parses the common parameters of these faults.
func (r Request) misleading() (*misleading, error) {
	m := &misleading{target: r.Target, what: r.Fault.Name + " for " + r.Target.String(), ttl: r.TTL, ask: map[string]string{}}
	switch {
	case r.Target.Host == framework.HarnessHost:
		m.hosts = framework.NodeNames(r.Cluster.Nodes())
		if net, ok := r.Cluster.(framework.NetworkFaulter); ok {
			m.hosts = slices.DeleteFunc(slices.Clone(net.Parties()), func(h string) bool { return h == framework.HarnessHost })
		}
	case r.Target.Host != "":
		m.hosts = []string{r.Target.Host}
	default:
		nodes, err := r.nodes()
		if err != nil {
			return nil, err
		}
		m.hosts = framework.NodeNames(nodes)
	}
	var err error
	if m.faulter, err = onCluster[framework.DNSFaulter](r); err != nil {
		return nil, err
	}
	known := m.faulter.Names()
	if len(known) == 0 {
		return nil, r.missing("DNSFaulter", "cluster "+r.Cluster.Name()+", whose machines have no DNS server", "")
	}
	if text := r.Values["names"]; text != "" {
		m.disturb.Names = strings.Split(text, ",")
		for i, name := range m.disturb.Names {
			name = strings.TrimSpace(name)
			if m.disturb.Names[i] = name; !slices.Contains(known, name) {
				return nil, r.bad("names", "names of %s, separated by commas", listed(known))
			}
		}
		known = m.disturb.Names
	}
	for _, h := range m.hosts {
		// A host resolves its own name without DNS.
		i := slices.IndexFunc(known, func(name string) bool { return name != h })
		if i < 0 {
			return nil, fmt.Errorf("host %s resolves its own name without DNS: set another name in names", h)
		}
		m.ask[h] = known[i]
	}
	return m, nil
}

// lookUp looks names up on all hosts in parallel. Its result leaves out hosts that cannot be
// queried, such as those without power.
func (m *misleading) lookUp(ctx context.Context) (map[string]framework.Lookup, error) {
	ctx, cancel := context.WithTimeout(ctx, moveLimit)
	defer cancel()
	var mu sync.Mutex
	found := map[string]framework.Lookup{}
	err := framework.Each(slices.Sorted(maps.Keys(m.ask)), func(host string) error {
		l, err := m.faulter.LookUp(ctx, host, m.ask[host])
		if err == nil {
			mu.Lock()
			defer mu.Unlock()
			found[host] = l
		}
		return err
	})
	if len(found) == 0 {
		return nil, err
	}
	return found, nil
}

// words describes the results of lookups.
func (m *misleading) words(found map[string]framework.Lookup) string {
	var all []string
	for _, h := range slices.Sorted(maps.Keys(found)) {
		l := found[h]
		outcome := l.Problem
		for _, a := range l.Addresses {
			outcome += " " + a.String()
		}
		all = append(all, fmt.Sprintf("looking up %s on %s: %s after %s", m.ask[h], h, strings.TrimSpace(outcome), l.Took.Round(time.Millisecond)))
	}
	return strings.Join(all, "; ")
}

func (m *misleading) inject(ctx context.Context) (Injection, error) {
	before, err := m.lookUp(ctx)
	if err != nil {
		return nil, fmt.Errorf("%s: before the fault: %w", m.what, err)
	}
	for h, l := range before {
		if l.Problem != "" || m.led(l) {
			return notInjected(m.target, "DNS was already wrong: %s", m.words(map[string]framework.Lookup{h: l})), nil
		}
	}
	handle := ""
	var began time.Time // of the first check of the healing
	return attempt{
		target: m.target,
		what:   m.what,
		ask: func(ctx context.Context) (err error) {
			handle, err = m.faulter.DisturbNames(ctx, m.hosts, m.disturb, m.ttl)
			return err
		},
		effect: func(ctx context.Context) (bool, string) {
			found, err := m.lookUp(ctx)
			if err != nil {
				return false, err.Error()
			}
			for h := range before {
				if l, ok := found[h]; !ok || !m.led(l) {
					return false, m.words(found)
				}
			}
			return true, m.words(found)
		},
		patience: 2 * moveLimit, // a lookup may have to time out first
		undo:     ifGiven(&handle, m.faulter.RestoreNames),
		healed: func(ctx context.Context) (bool, string) {
			found, err := m.lookUp(ctx)
			if err != nil {
				return false, err.Error()
			}
			if began.IsZero() {
				began = time.Now()
			}
			wrong := false
			for _, l := range found {
				if m.led(l) {
					return false, m.words(found)
				}
				wrong = wrong || l.Problem != ""
			}
			if wrong {
				return time.Since(began) > othersLimit, m.words(found) + ": other faults of DNS are active"
			}
			return true, m.words(found)
		},
	}.injection(ctx)
}

// notFound reports whether DNS answered that the name does not exist.
func notFound(l framework.Lookup) bool { return strings.Contains(l.Problem, "no such host") }

// gaveUp reports whether no answer arrived in the time that resolvers wait.
func gaveUp(l framework.Lookup) bool { return l.Problem != "" && !notFound(l) }
