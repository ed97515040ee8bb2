package judges

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/holdfast-ha/holdfast/framework/judge/internal/facts"
	"github.com/holdfast-ha/holdfast/framework/judge/internal/text"
	"github.com/holdfast-ha/holdfast/framework/record"
)

var watchesReturn = Definition{Doc{
	Name: "watches-return",
	Guarantee: "A client whose watch breaks with an API server, as it must if that exits, has another one within the bound, which stays open and shows what is written, and once the API server has been back for as long as the bound, " +
		"watches that are opened through the balancer reach it at least as often as by chance.",
	Source:     "Automated HA master deployment (load balancing)",
	NeedsFault: true, NeedsBound: true, Coarser: true,
}, judgeWatchesReturn}

func judgeWatchesReturn(m *facts.Case) Finding {
	node := m.Fault.Node()
	address := m.Address(node)
	if address == "" {
		return Inconclusive("the fault hit %q, which is not a control-plane node", m.Fault.Injected.Target)
	}
	broken, f := reestablished(m, node, address)
	if f != nil {
		return *f
	}
	back := m.Fault.HealEffect()
	opened, told, reached := 0, 0, 0
	first, until := time.Duration(-1), back
	for _, w := range record.Each(m.Run.Watches) {
		if w.API != facts.APIKubernetes || w.Phase != record.WatchOpened || m.WasNode(w.Entrance) || w.Called < back {
			continue
		}
		here := throughServer(m, w, node, address)
		if here && first < 0 {
			first = text.Span(back, w.Seen)
		}
		if w.Called < back+record.Nanos(m.Bound.Limit) {
			continue // the balancer may not have noticed yet
		}
		opened, until = opened+1, max(until, w.Seen)
		if m.ServerOf(w.Server) != "" {
			told++
		}
		if here {
			reached++
		}
	}
	again := fmt.Sprintf("Of %s whose watches broke with the %s, each had another one %s after it at most, within %s", text.Plural(broken.clients, "client"), m.Fault.What(), text.Short(broken.worst), m.Bound)
	share := fmt.Sprintf("%d of %d watches that were opened through the balancer more than %s after the API server on %s was back reached it", reached, opened, m.Bound, node)
	chance := facts.AtMost(reached, told, 1/float64(max(1, len(m.NodesWith("kube-apiserver")))))
	switch {
	case m.StandsBy(node, m.Fault.Healed.Called, m.Run.EndAt):
		return notApplicable("%s. The API server on %s is on standby after its return: the balancer sends clients to one API server at a time.", again, node)
	case told < opened || opened == 0:
		return Inconclusive("%s. Whether watches are spread again is not known: %d of %d watches that were opened through the balancer after the API server on %s was back show which one they reached",
			again, told, opened, node)
	case chance < facts.Doubtful && !m.Spread("balancer"):
		return Inconclusive("%s. Whether watches are spread again is not known: %s, but all clients of the balancer were seen on one API server before the %s, so it may choose by their address",
			again, share, m.Fault.What())
	case chance < facts.Unfair:
		return Failed("Watches must be spread again once an API server is back: %d of %d that were opened through the balancer more than %s after the healing of the %s reached %s (%s).",
			reached, opened, m.Bound, m.Fault.What(), node, address).counted("%d of %d watches", reached, opened).Rests(back, until)
	case chance < facts.Doubtful || reached == 0:
		return Inconclusive("%s. Whether watches are spread again is not known: %s, too few for a verdict", again, share)
	}
	return Passed("%s; %s, the first one %s after its return.", again, share, text.Short(first)).Took(broken.worst)
}

// breakage describes the watches that a fault broke.
type breakage struct {
	clients int
	worst   time.Duration
}

// reestablished checks the clients whose watches through an API server broke against the bound. A
// finding says what is wrong.
func reestablished(m *facts.Case, node, address string) (b breakage, f *Finding) {
	from, to := m.Fault.Injected.Called, m.Fault.Healed.Called
	effect := m.Fault.Effect()
	through := map[string]bool{}       // watches through the API server, by ID
	waiting := map[string]bool{}       // clients whose watch broke
	again := map[string]record.Nanos{} // when they had another one
	ended := map[string]record.Nanos{} // watches, by ID
	mute := muteWatches(m)
	for _, w := range record.Each(m.Run.Watches) {
		if w.API != facts.APIKubernetes {
			continue
		}
		if w.Phase == record.WatchEnded {
			ended[w.ID] = w.Seen
		}
		switch _, had := again[w.Client]; {
		case w.Phase == record.WatchOpened:
			if through[w.ID] = throughServer(m, w, node, address); waiting[w.Client] && !had && !mute[w.ID] {
				again[w.Client] = w.Seen
			}
		case w.Phase == record.WatchEnded && through[w.ID] && w.Seen >= from && w.Seen < to && facts.BrokeDown(&w):
			waiting[w.Client] = true
		}
	}
	b.clients = len(waiting)
	if b.clients == 0 {
		return b, Inconclusive("no watch through the API server on %s broke with the %s", node, m.Fault.What()).problem()
	}
	limit := m.Bound.Limit
	for _, client := range slices.Sorted(maps.Keys(waiting)) {
		seen, had := again[client]
		took := text.Span(effect, min(to, m.Run.EndAt))
		if had {
			took = text.Span(effect, seen)
		}
		b.worst = max(b.worst, took)
		switch {
		case took <= limit && had:
		case took <= limit:
			return b, Inconclusive("%s, whose watch broke with the %s, had no other one when that was healed after %s, less than the bound of %s", client, m.Fault.What(), text.Short(took), m.Bound).problem()
		case had:
			return b, Failed("Watches must be re-established within %s of the %s: %s had another one only after %s.", m.Bound, m.Fault.What(), client, text.Short(took)).
				Took(took).Rests(effect, seen).problem()
		default:
			return b, Failed("Watches must be re-established within %s of the %s: %s had none for %s.", m.Bound, m.Fault.What(), client, text.Short(took)).
				Took(took).Rests(effect, effect+record.Nanos(took)).problem()
		}
	}
	return b, staysOpen(m, through, ended)
}

// staysOpen finds a watch through an API server that is gone which stayed open for longer than the bound:
// its client cannot know that it shows nothing. Only the kernel of a node that has power closes the
// connections of a process that exits.
func staysOpen(m *facts.Case, through map[string]bool, ended map[string]record.Nanos) *Finding {
	in, effect := m.Fault.Injected, m.Fault.Effect()
	if !in.Has(record.EffectDown) || in.Has(record.EffectPower) || !m.Fault.KeepsAPIServerDown() {
		return nil
	}
	for _, w := range record.Each(m.Run.Watches) {
		if w.Phase != record.WatchOpened || !through[w.ID] || w.Seen >= in.Called {
			continue
		}
		until := min(m.Fault.Healed.Called, m.Run.EndAt)
		if end, known := ended[w.ID]; known {
			until = min(until, end)
		}
		if took := text.Span(effect, until); took > m.Bound.Limit {
			return Failed("Watches must be re-established within %s of the %s: that of %s, watch %s through %s, stayed open for %s, though the API server that served it was gone.",
				m.Bound, m.Fault.What(), w.Client, w.ID, w.Entrance, text.Short(took)).Took(took).Rests(effect, until).problem()
		}
	}
	return nil
}

// throughServer reports whether a watch goes through a node's API server. A certificate that all API
// servers share does not show that.
func throughServer(m *facts.Case, w record.Watch, node, address string) bool {
	return w.Entrance == node || m.ServerOf(w.Server) != "" && slices.Contains(w.Server, address)
}

// leastLife is how long a watch lasts at least that its client asked the server to end: the
// requested time is in whole seconds.
const leastLife = time.Second

// muteWatches returns the watches, by ID, that were accepted and showed nothing until they broke
// or, within leastLife, the server ended them, or that showed nothing although a write of a watched
// key was called while they were open and acknowledged, and they stayed open for 5 s after that:
// for its client, such a watch does not exist.
func muteWatches(m *facts.Case) map[string]bool {
	mute := map[string]bool{}
	for _, s := range m.Collections().Streams {
		if !s.Opened || len(s.Messages)+len(s.Unread) > 0 {
			continue
		}
		until := m.Run.EndAt
		if s.Ended != nil {
			until = s.Ended.Seen
		}
		mute[s.Watch.ID] = cutShort(s) || slices.ContainsFunc(s.Timeline.Writes, func(w *facts.Write) bool {
			in := (s.Watch.Key == "" || s.Watch.Key == w.Op.Key) && (s.Watch.Group == "" || s.Watch.Group == w.Op.Group)
			return in && !w.Deletes() && w.Op.Outcome == record.OK && w.Op.Call > s.Watch.Seen && w.Op.Return+record.Nanos(facts.SilenceLimit) < until
		})
	}
	return mute
}

// cutShort reports whether a watch broke, or the server ended it sooner than any client asks for.
func cutShort(s *facts.Stream) bool {
	switch {
	case s.Ended == nil:
		return false
	case s.Ended.Error == "":
		return text.Span(s.Watch.Seen, s.Ended.Seen) < leastLife*9/10 // both are measured with a delay
	}
	return facts.BrokeDown(s.Ended)
}
