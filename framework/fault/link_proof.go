package fault

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/holdfast-ha/holdfast/framework"
)

// counted is what an impairment did to one of its links.
type counted struct {
	framework.Link
	framework.LinkCounters
}

func (c counted) String() string { return c.From + " to " + c.To }

// finding is what the counters of an impairment's links show of its effect.
type finding struct {
	// shown reports whether the packets that arrived show the effect.
	shown bool
	// refuted describes what contradicts the effect; empty for nothing. With few packets it may
	// be chance.
	refuted string
	seen    string
	// wants is how many more packets each link needs for a result.
	wants int
}

// shows reports what the counters show of an impairment.
type shows func(asked framework.Impairment, links []counted) finding

func total(links []counted) (all framework.LinkCounters) {
	for _, l := range links {
		all = all.Add(l.LinkCounters)
	}
	return all
}

// drops shows that everything was dropped: packets arrived, and none passed on any link.
func drops(_ framework.Impairment, links []counted) finding {
	all := total(links)
	f := finding{shown: all.Dropped > 0, seen: fmt.Sprintf("%d packets dropped and %d passed", all.Dropped, all.Passed)}
	for _, l := range links {
		if l.Passed > 0 {
			f.refuted = fmt.Sprintf("%d packets passed from %s", l.Passed, l)
		}
	}
	return f
}

const (
	// shareSample is the expected number of hit packets from which on a share counts as shown.
	shareSample = 10
	// shareOdds is the highest probability of chance at which a share counts as refuted, as a
	// negative natural logarithm: one in ten million for each link.
	shareOdds = 16.1
	// shareSlack is how many packets may arrive between the readings of two counters.
	shareSlack = 2
	// burst is the most packets sent along a link at a time.
	burst = 100
)

// hits is how many packets an impairment hit, out of how many: if other impairments are on the
// link as well, only the bounds are known.
type hits struct{ hit, least, most float64 }

// hitShare shows that a share of the packets was hit, on all links together and on each,
// as far as chance allows.
func hitShare(share float64, what string, links []counted, count func(framework.LinkCounters) hits) finding {
	all := count(total(links))
	f := finding{shown: all.hit > 0 && all.least*share >= shareSample,
		seen: fmt.Sprintf("%.0f of %.0f packets %s (%.4g%% requested)", all.hit, all.most, what, 100*share)}
	if missing := shareSample/share - all.least; missing > 0 {
		f.wants = min(burst, int(math.Ceil(missing/float64(len(links)))))
	}
	for _, l := range links {
		if h := count(l.LinkCounters); h.unlikely(share) {
			f.refuted = fmt.Sprintf("%.0f of %.0f packets from %s were %s, which chance does not explain", h.hit, h.most, l, what)
		}
	}
	if f.refuted == "" && all.unlikely(share) {
		f.refuted = "which chance does not explain"
	}
	return f
}

// unlikely reports whether a share explains the hits with a probability below shareOdds. It is
// the Chernoff bound for the tails of a binomial distribution.
func (h hits) unlikely(share float64) bool {
	few := h.hit + shareSlack
	many := h.hit - shareSlack
	return few < h.least*share && h.least*divergence(few/h.least, share) > shareOdds ||
		many > h.most*share && h.most*divergence(min(1, many/h.most), share) > shareOdds
}

// divergence is the relative entropy of two coins that show heads with the probabilities a and p.
func divergence(a, p float64) float64 {
	part := func(a, p float64) float64 {
		if a == 0 {
			return 0
		}
		return a * math.Log(a/p) // +Inf if p is 0
	}
	return part(a, p) + part(1-a, 1-p)
}

// rates shows that no link was faster than requested, as measured: each packet is held for at
// least the time that its bits take.
func rates(asked framework.Impairment, links []counted) finding {
	all := total(links)
	if all.Held == 0 {
		return finding{seen: fmt.Sprintf("no packet has passed at %d bit/s", asked.Rate)}
	}
	f := finding{shown: true}
	fastest := 0.0
	for _, l := range links {
		if l.HeldFor <= 0 {
			continue
		}
		measured := float64(l.HeldBytes) * 8 / l.HeldFor.Seconds()
		if fastest = max(fastest, measured); measured > 1.01*float64(asked.Rate) { // clocks count nanoseconds
			f.refuted = fmt.Sprintf("the link from %s carried %.0f bit/s", l, measured)
		}
	}
	f.seen = fmt.Sprintf("%d packets passed at %.0f bit/s at most (%d requested), held for %s on average, and %d dropped from the queue",
		all.Held, fastest, asked.Rate, (all.HeldFor / time.Duration(all.Held)).Round(time.Microsecond), all.Dropped)
	return f
}

// delays shows that packets were delayed by at least what was requested, as measured, on each
// link that carried any. A longer delay does not refute the fault: a busy machine adds to it. The
// mean of a few packets may fall short by chance, up to three standard deviations.
func delays(asked framework.Impairment, links []counted) finding {
	all := total(links)
	if all.Held == 0 {
		return finding{seen: fmt.Sprintf("%d packets delayed and none of them delivered", all.Delayed)}
	}
	mean := func(n framework.LinkCounters) time.Duration { return n.HeldFor / time.Duration(n.Held) }
	f := finding{shown: true, seen: fmt.Sprintf("%d packets delayed by %s on average (%s ± %s requested),",
		all.Held, mean(all).Round(10*time.Microsecond), asked.Delay, asked.Jitter)}
	for _, l := range links {
		if l.Held == 0 {
			continue
		}
		least := asked.Delay - time.Duration(3*float64(asked.Jitter)/math.Sqrt(float64(l.Held)))
		if mean(l.LinkCounters) < least {
			f.shown = false
			f.seen += fmt.Sprintf(" and from %s by %s,", l, mean(l.LinkCounters).Round(10*time.Microsecond))
		}
	}
	return f
}

// unexercised names the links on which the effect was not seen because no packet arrived; empty
// if that is not a gap in the proof. A link along which probe packets were sent must have counted
// them. Of the links along which none could be sent, one per direction of each end is enough: an
// idle cluster sends nothing there, and an unused link proves nothing either way. If the
// impairment is only about connections that other clients must open, the direction is left open
// as well.
func (x *impairment) unexercised(links []counted) string {
	if !x.probes() {
		return ""
	}
	for i, l := range links {
		if l.Matched == 0 && x.probed[i] && x.asked.FlapOn == 0 {
			return fmt.Sprintf("none of the packets sent from %s was counted", l)
		}
	}
	for _, e := range x.ends {
		for _, out := range []bool{true, false} {
			own := slices.DeleteFunc(slices.Clone(links), func(l counted) bool { return out && l.From != e.name || !out && l.To != e.name })
			switch {
			case len(own) == 0 || total(own).Matched > 0:
			case out:
				return "no packet came from " + e.name
			default:
				return "no packet reached " + e.name
			}
		}
	}
	return ""
}
