package judge

import (
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-ha/holdfast/framework/record"
)

func watchesReturn() definition {
	return definition{Doc{
		Name: "watches-return",
		Guarantee: "A client whose watch breaks with an API server has another one within the bound, which shows what is written, and once the API server is back for as long as the bound, " +
			"the watches that are opened through the balancer reach it as often as by chance at least.",
		Source:     "Automated HA master deployment (load balancing)",
		NeedsFault: true, NeedsBound: true,
	}, judgeWatchesReturn}
}

func judgeWatchesReturn(m *matter) finding {
	node := m.fault.node()
	address := m.address(node)
	if address == "" {
		return inconclusive("the fault hit no control-plane node, but %q", m.fault.injected.Target)
	}
	broken, f := m.reestablished(node, address)
	if f != nil {
		return *f
	}
	back := m.fault.healEffect()
	opened, told, reached := 0, 0, 0
	first, until := time.Duration(-1), back
	for i := range m.run.Watches {
		w := &m.run.Watches[i].V
		if w.API != apiKubernetes || w.Phase != record.WatchOpened || m.isNode(w.Entrance) || w.Called < back {
			continue
		}
		here := slices.Contains(w.Server, address)
		if here && first < 0 {
			first = span(back, w.Seen)
		}
		if w.Called < back+record.Nanos(m.bound.Limit) {
			continue // the balancer may still be finding out
		}
		opened, until = opened+1, max(until, w.Seen)
		if m.names(w.Server) {
			told++
		}
		if here {
			reached++
		}
	}
	again := fmt.Sprintf("Of %d clients whose watches broke with the %s, each had another one %s after it at most, within %s", broken.clients, m.fault.what(), short(broken.worst), m.bound)
	share := fmt.Sprintf("%d of %d watches that were opened through the balancer more than %s after the API server on %s was back reached it", reached, opened, m.bound, node)
	chance := atMost(reached, told, 1/float64(max(1, len(m.nodesWith("kube-apiserver")))))
	switch {
	case told < opened || opened == 0:
		return inconclusive("%s. Whether watches are spread again is not known: %d of %d watches that were opened through the balancer after the API server on %s was back tell which one they reached",
			again, told, opened, node)
	case chance < unfair:
		return failed("Watches must be spread again once an API server is back: %d of %d that were opened through the balancer more than %s after the healing of the %s reached %s (%s).",
			reached, opened, m.bound, m.fault.what(), node, address).counted("%d of %d watches", reached, opened).rests(back, until)
	case chance < doubtful || reached == 0:
		return inconclusive("%s. Whether watches are spread again is not known: %s, which is too few to tell", again, share)
	}
	return passed("%s; %s, the first one %s after it was.", again, share, short(first)).took(broken.worst)
}

// breakage is what became of the watches that a fault broke.
type breakage struct {
	clients int
	worst   time.Duration
}

// reestablished holds the clients whose watches through an API server broke against
// the bound. A finding says what is wrong.
func (m *matter) reestablished(node, address string) (b breakage, f *finding) {
	from, to := m.fault.injected.Called, m.fault.healed.Called
	effect := m.fault.effect()
	through := map[string]bool{}       // watches through the API server, by ID
	waiting := map[string]bool{}       // clients whose watch broke
	again := map[string]record.Nanos{} // when they had another one
	mute := m.muteWatches()
	for i := range m.run.Watches {
		w := &m.run.Watches[i].V
		if w.API != apiKubernetes {
			continue
		}
		switch _, had := again[w.Client]; {
		case w.Phase == record.WatchOpened:
			if through[w.ID] = w.Entrance == node || slices.Contains(w.Server, address); waiting[w.Client] && !had && !mute[w.ID] {
				again[w.Client] = w.Seen
			}
		case w.Phase == record.WatchEnded && through[w.ID] && w.Seen >= from && w.Seen < to && brokeDown(w):
			waiting[w.Client] = true
		}
	}
	b.clients = len(waiting)
	if b.clients == 0 {
		f := inconclusive("no watch through the API server on %s broke with the %s", node, m.fault.what())
		return b, &f
	}
	limit := m.bound.Limit
	for _, client := range sortedNames(waiting) {
		seen, had := again[client]
		took := span(effect, min(to, m.run.EndAt))
		if had {
			took = span(effect, seen)
		}
		b.worst = max(b.worst, took)
		switch {
		case took <= limit && had:
		case took <= limit:
			f := inconclusive("%s, whose watch broke with the %s, had no other one when that was healed after %s, less than the bound of %s", client, m.fault.what(), short(took), m.bound)
			return b, &f
		case had:
			f := failed("Watches must be re-established within %s of the %s: %s had another one only after %s.", m.bound, m.fault.what(), client, short(took)).
				took(took).rests(effect, seen)
			return b, &f
		default:
			f := failed("Watches must be re-established within %s of the %s: %s had none for %s.", m.bound, m.fault.what(), client, short(took)).
				took(took).rests(effect, effect+record.Nanos(took))
			return b, &f
		}
	}
	return b, nil
}

// muteWatches returns the watches, by ID, that were accepted and showed nothing at all,
// although a write of what they watch had been acknowledged, called while they were open,
// and they stayed open for 5 s after that: such a watch is not one to its client.
func (m *matter) muteWatches() map[string]bool {
	mute := map[string]bool{}
	for _, s := range m.collections().streams {
		if !s.opened || len(s.messages)+len(s.unread) > 0 {
			continue
		}
		until := m.run.EndAt
		if s.ended != nil {
			until = s.ended.Seen
		}
		mute[s.watch.ID] = slices.ContainsFunc(s.timeline.writes, func(w *write) bool {
			in := (s.watch.Key == "" || s.watch.Key == w.op.Key) && (s.watch.Group == "" || s.watch.Group == w.op.Group)
			return in && !w.deletes() && w.op.Outcome == record.OK && w.op.Call > s.watch.Seen && w.op.Return+record.Nanos(silenceLimit) < until
		})
	}
	return mute
}

func sortedNames(set map[string]bool) []string {
	var names []string
	for name := range set {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
