package engine

import (
	"slices"
	"time"

	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/fault"
	"github.com/holdfast-ha/holdfast/framework/record"
)

const (
	// longestRecovery is the catalogue's limit for any recovery from network
	// faults.
	longestRecovery = 60 * time.Second
	// longestBackOff is how long TCP's retransmission (TCP_RTO_MAX in Linux) and gRPC's
	// reconnections (MAX_BACKOFF) wait at most, however long a fault lasted.
	longestBackOff = 120 * time.Second
	// etcdRequest is the fixed part of the time after which an etcd member gives up a request,
	// and with it the round of linearizable reads that it was waiting for: 5 s and two election
	// timeouts (ServerConfig.ReqTimeout in go.etcd.io/etcd/server/v3/config). A round that
	// started during a cut delays the reads behind it for that long after the network is healed.
	etcdRequest = 5 * time.Second
)

// recovery is how long the cluster may take to be steady again.
type recovery struct {
	from    time.Time // when the last healing started to count, see add
	until   time.Time // when the limit of each healing is over, see recoveryLimit
	checked bool      // the steady state was checked after the last healing
	stale   bool      // and the cluster was changed since
}

// limits returns from when on a check that starts now is timed, and the limit. Once the cluster was
// checked, the healing allows nothing any more.
func (r *recovery) limits(s framework.Settings) (from time.Time, limit time.Duration) {
	if r.from.IsZero() || r.checked {
		return time.Now(), baseRecovery(s)
	}
	return r.from, max(r.until.Sub(r.from), baseRecovery(s))
}

// add adds a healing that was called at called and proven at effect (zero if it was not). Each has a
// limit of its own, and the last one counts. A network is healed with the call; a component
// has to start first, which takes long on a busy machine, so its time counts from the proof.
func (r *recovery) add(s framework.Settings, i *activeFault, called, effect time.Time) {
	from := called
	if !effect.IsZero() && !isNetwork(i.fault) {
		from = effect
	}
	if from.After(r.from) {
		r.from = from
	}
	r.checked = false
	if until := from.Add(recoveryLimit(s, i, from, !effect.IsZero())); until.After(r.until) {
		r.until = until
	}
}

func baseRecovery(s framework.Settings) time.Duration { return 2*s.ElectionTimeout + s.Margin }

// recoveryLimit is the recovery limit of the catalogue, but with longestBackOff as its ceiling:
// 2E + M, plus, for a network fault, its duration, since TCP's retransmission backs off for about
// that long, and the time after which etcd gives up a request; for any other fault the start time
// of a component, unless its healing is proven by a component that serves: then the time counts
// from that proof.
//
// An API server reconnects to an etcd member that was down with gRPC's back-off, whose waits grow
// from 1 s by 1.6 each, give or take a fifth
// (https://github.com/grpc/grpc/blob/master/doc/connection-backoff.md): the current wait is at
// most nine tenths of the downtime plus 1.2 s. It is added, within the same limit.
func recoveryLimit(s framework.Settings, i *activeFault, healed time.Time, proven bool) time.Duration {
	var lasted time.Duration
	if began := i.inj.Proof().Called; !began.IsZero() {
		lasted = healed.Sub(began)
	}
	limit := baseRecovery(s)
	hits := func(c framework.Component) bool { return i.inj.Target().Component == c || slices.Contains(i.group, c) }
	if isNetwork(i.fault) {
		limit += lasted + etcdRequest + 2*s.ElectionTimeout
	} else {
		if hits(framework.Etcd) {
			limit += lasted*9/10 + 1200*time.Millisecond
		}
		if serves := i.inj.Target().Component == framework.Etcd || i.inj.Target().Component == framework.APIServer; !proven || !serves {
			limit += record.ComponentStart
		}
	}
	return min(longestBackOff, limit.Round(time.Millisecond))
}

func isNetwork(f *fault.Fault) bool { return slices.Contains(f.EffectsWith(nil), record.EffectNetwork) }
