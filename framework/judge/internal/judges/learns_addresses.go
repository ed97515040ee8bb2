package judges

import (
	"cmp"
	"maps"
	"slices"

	"github.com/holdfast-ha/holdfast/framework/judge/internal/facts"
	"github.com/holdfast-ha/holdfast/framework/judge/internal/text"
	"github.com/holdfast-ha/holdfast/framework/judge/verdict"
	"github.com/holdfast-ha/holdfast/framework/record"
)

// enoughRequests is how many failed requests of such a client show that it cannot continue.
const enoughRequests = 3

var learnsAddresses = Definition{Doc{
	Name:       "learns-addresses",
	Guarantee:  "Each client that has a list of addresses learns those of new API servers from the kubernetes service: once all that it started with are gone, its requests succeed within the bound through one that joined later.",
	Source:     "API server HA proposal, section 4.1",
	NeedsFault: true, NeedsBound: true,
	Params: map[string]string{
		"faults": "injections that together stop all API servers that existed at the start, separated by commas (default: the check's fault)",
	},
}, judgeLearnsAddresses}

func judgeLearnsAddresses(m *facts.Case) Finding {
	if _, problem := changesIn(m, m.Run.Nodes, nil); problem != nil {
		return *problem
	}
	from, to := m.Active()
	var hit []string
	for _, inj := range m.Together() {
		hit = append(hit, inj.Node())
	}
	if from >= to {
		return Inconclusive("the faults were never active together: the last took effect %s, the first was healed %s", text.At(from), text.At(to))
	}
	var known []string // addresses that the client started with
	for _, n := range m.NodesWith("kube-apiserver") {
		known = append(known, n.Address)
		if life, there := facts.LifeAt(m.Run, n.Name, from); there && life.Address == n.Address && !slices.Contains(hit, n.Name) {
			return Inconclusive("no fault hit %s, so the client may not have needed another address", n.Name)
		}
	}
	var others []facts.NodeLife
	for _, n := range facts.NodeLives(m.Run) {
		if !slices.Contains(known, n.Address) && n.From < from && n.Until >= to && slices.Contains(n.Components, "kube-apiserver") {
			others = append(others, n)
		}
	}
	if len(others) == 0 {
		return Inconclusive("no API server that joined later was up while the others were gone")
	}
	w := loneTime{from, to, from + record.Nanos(m.Bound.Limit), others}
	clients := learnersIn(m, w)
	early := slices.ContainsFunc(clients, func(l *learner) bool { return l.succeeded != nil && l.succeeded.Return <= w.limit })
	var failed, open *Finding
	var last *learner // to succeed
	for _, l := range clients {
		switch f := l.problem(m, w, early); {
		case f == nil:
			if last == nil || l.succeeded.Return > last.succeeded.Return {
				last = l
			}
		case f.Verdict == verdict.Fail:
			if failed == nil || *f.Value > *failed.Value {
				failed = f
			}
		case open == nil:
			open = f
		}
	}
	switch {
	case failed != nil:
		return *failed
	case open != nil:
		return *open
	case last == nil:
		return Inconclusive("no client with a list of addresses made a request while all API servers that it started with were gone")
	}
	took := text.Span(from, last.succeeded.Return)
	return Passed("Each of %s with a list of addresses succeeded through an API server that joined later, which it had learned from the kubernetes service: the last one, %s, succeeded through %s (%s) %s after all API servers that it started with were gone.",
		text.Plural(len(clients), "client"), last.name, last.through, last.succeeded.Address, text.Short(took)).Took(took)
}

// loneTime is the time in which all API servers that a client started with are gone, when it must
// have succeeded, and the API servers that joined later.
type loneTime struct {
	from, to, limit record.Nanos
	others          []facts.NodeLife
}

// learner is what became of the requests of one client in that time.
type learner struct {
	name      string
	asked     int
	failed    []*record.Op // those called in that time that failed before it succeeded
	succeeded *record.Op   // the first one through an API server that joined later
	through   string       // the node of that
}

// learnersIn returns the clients that made a request in that time, by name. A success counts if
// its request was called before, too: with none but the others left, one of them answered it. Any
// other that was called before and lasted beyond the limit counts as made, since the client could
// make no other one in time, but not as failed: the client may have known the address.
func learnersIn(m *facts.Case, w loneTime) []*learner {
	var requests []*record.Op
	for i := range m.Run.Ops {
		if op := &m.Run.Ops[i].V; op.Purpose == facts.PurposeFailover && op.Return >= w.from && op.Call < w.to {
			requests = append(requests, op)
		}
	}
	slices.SortStableFunc(requests, func(a, b *record.Op) int { return cmp.Compare(a.Return, b.Return) })
	known := map[string]*learner{}
	for _, op := range requests {
		node := ""
		if op.Outcome == record.OK {
			node = w.answering(op)
		}
		before := op.Call < w.from && node == ""
		if before && op.Return <= w.limit {
			continue
		}
		l := known[op.Client]
		if l == nil {
			l = &learner{name: op.Client}
			known[op.Client] = l
		}
		l.asked++
		switch {
		case l.succeeded != nil:
		case node != "":
			l.succeeded, l.through = op, node
		case op.Outcome != record.OK && !before:
			l.failed = append(l.failed, op)
		}
	}
	return slices.SortedFunc(maps.Values(known), func(a, b *learner) int { return cmp.Compare(a.name, b.name) })
}

// answering returns the node that joined later and that a client used last, empty for none.
func (w loneTime) answering(op *record.Op) string {
	host := facts.HostOf(op.Address)
	if i := slices.IndexFunc(w.others, func(n facts.NodeLife) bool { return n.Address == host }); i >= 0 {
		return w.others[i].Name
	}
	return ""
}

// problem returns why a client does not pass, nil if it succeeded in time. If another one did
// (early), a late one may have been slow alone: it fails if it had requests in vain meanwhile,
// while an API server that joined later answered others.
func (l *learner) problem(m *facts.Case, w loneTime, early bool) *Finding {
	if l.succeeded != nil && l.succeeded.Return <= w.limit {
		return nil
	}
	if l.succeeded != nil {
		took := text.Span(w.from, l.succeeded.Return)
		if early && (len(l.failed) < enoughRequests || w.served(m, l.failed[0].Call, l.failed[len(l.failed)-1].Return) == "") {
			return Inconclusive("another client succeeded within %s, but %s after %s, through %s, and %d of its requests failed before: nothing shows that it did not know the address",
				m.Bound, l.name, text.Short(took), l.through, len(l.failed)).problem()
		}
		return Failed("A client with a list of addresses must succeed within %s through an API server that joined later: %s succeeded only after %s, through %s.",
			m.Bound, l.name, text.Short(took), l.through).Took(took).Rests(w.from, l.succeeded.Return).Shows(text.Describe(*l.succeeded)).problem()
	}
	if len(l.failed) < enoughRequests || l.failed[len(l.failed)-1].Call < w.limit {
		return Inconclusive("%s made %s while all API servers that it started with were gone; %d of them failed, but a verdict needs at least %d failures, the last of them called %s or more after that",
			l.name, text.Plural(l.asked, "request"), len(l.failed), enoughRequests, m.Bound).problem()
	}
	server := w.served(m, w.limit, w.to)
	if server == "" {
		return Inconclusive("none of the API servers that joined later was seen to answer a client %s after the others were gone", m.Bound).problem()
	}
	final := l.failed[len(l.failed)-1]
	took := text.Span(w.from, final.Return)
	return Failed("A client with a list of addresses must learn new ones from the kubernetes service: once all API servers that it started with were gone, none of the %d requests of %s was answered for %s, though the one on %s answered others.",
		l.asked, l.name, text.Short(took), server).Took(took).Rests(w.from, final.Return).Shows(text.Describe(*final)).problem()
}

// served returns the first of the nodes that joined later whose API server answered a quorum read
// of a prober between two moments, empty for none.
func (w loneTime) served(m *facts.Case, from, to record.Nanos) string {
	for _, pr := range record.Each(m.Run.Probes) {
		if pr.OK && pr.Kind == record.ProbeQuorumRead && pr.Start >= from && pr.End <= to &&
			slices.ContainsFunc(w.others, func(n facts.NodeLife) bool { return n.Name == pr.Entrance }) {
			return pr.Entrance
		}
	}
	return ""
}
