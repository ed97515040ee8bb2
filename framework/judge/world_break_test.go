package judge

import (
	"maps"
	"slices"
	"testing"

	"github.com/holdfast-ha/holdfast/framework/judge/internal/facts"
	"github.com/holdfast-ha/holdfast/framework/record"
)

// damage breaks a legal history in one place, where the record suffices to show it. It returns
// false if the history has no such place.
type damage struct {
	name string
	api  string // empty for both
	do   func(*broken) bool
	must string   // the judge that has to accuse
	may  []string // those that may fail as well
}

// broken is a world to be broken, with what can be known of it.
type broken struct {
	*world
	c *facts.Collections
}

// strong reports whether the write of a version was acknowledged with it.
func (b *broken) strong(e record.Event) bool {
	w := b.c.Timelines[facts.CollectionOf{API: b.api, Name: "things"}].ByValue[facts.PairOf{Key: e.Key, Value: e.Value}]
	return e.Type != record.EventBookmark && e.Type != record.EventDeleted && w != nil && w.Op.Outcome == record.OK
}

// spot is a place in the record: message i of a watch, and its place among all events.
type spot struct {
	s     *facts.Stream
	i, at int
}

func (p spot) event() *record.Event { return p.s.Messages[p.i].Event }

// spots returns the matching places, in watches whose start of changes is known.
func (b *broken) spots(fits func(s *facts.Stream, i int) bool) []spot {
	at := map[*record.Event]int{}
	for i := range b.run.Events {
		at[&b.run.Events[i].V] = i
	}
	var list []spot
	for _, s := range b.c.Streams {
		for i := range s.Messages {
			if s.Opened && s.Base > 0 && i >= s.Begin && fits(s, i) {
				list = append(list, spot{s, i, at[s.Messages[i].Event]})
			}
		}
	}
	return list
}

func (b *broken) spot(fits func(s *facts.Stream, i int) bool) (spot, bool) {
	return pick(b, b.spots(fits))
}

func pick[T any](b *broken, list []T) (one T, ok bool) {
	if len(list) == 0 {
		return one, false
	}
	return list[b.IntN(len(list))], true
}

// remove drops the event of a spot; insert puts one into its place.
func (b *broken) remove(p spot) bool {
	b.run.Events = slices.Delete(b.run.Events, p.at, p.at+1)
	return true
}

func (b *broken) insert(p spot, e record.Event) bool {
	e.Watch, e.Seen, e.Batch = p.event().Watch, p.event().Seen, p.event().Batch
	b.run.Events = slices.Insert(b.run.Events, p.at, record.Timed[record.Event]{At: e.Seen, V: e})
	return true
}

// firm reports whether the start of the watch is known without message i.
func firm(s *facts.Stream, i int) bool { return s.From() > 0 || s.Watch.Initial || i > s.Begin }

// past reports whether the watch shows after message i that it is past it.
func past(s *facts.Stream, i int) bool {
	return firm(s, i) && slices.ContainsFunc(s.Messages[i+1:], func(m facts.Message) bool { return m.Number > s.Messages[i].Number })
}

func (b *broken) strongSpot(more func(s *facts.Stream, i int) bool) (spot, bool) {
	return b.spot(func(s *facts.Stream, i int) bool { return b.strong(*s.Messages[i].Event) && more(s, i) })
}

// sureBefore reports whether the state before the change of message i is known.
func sureBefore(s *facts.Stream, i int) (old *facts.KeyChange, sure bool) {
	e, _, known := s.Shown(s.Messages[i])
	if !known {
		return nil, false
	}
	j, _ := e.Line.Find(e.Revision)
	return e.Line.Before(j), e.Line.Sure(j)
}

func (b *broken) listSpot(fits func(l facts.Listing) bool) (*record.List, facts.Listing, bool) {
	var list []facts.Listing
	for _, l := range b.c.Lists {
		if l.Outcome == record.OK && fits(l) {
			list = append(list, l)
		}
	}
	l, ok := pick(b, list)
	return l.List, l, ok
}

// changeOf returns what really happened in a version to a key.
func (b *broken) changeOf(id facts.VersionOf) simChange {
	i := slices.IndexFunc(b.history, func(c simChange) bool { return c.key == id.Key && c.rev == id.Revision })
	return b.history[i]
}

// Each way to break a history is seen by the judge of the guarantee that it breaks, and
// by none that has nothing to do with it.
func TestBrokenWorlds(t *testing.T) {
	times := 40
	if testing.Short() {
		times = 5
	}
	for _, d := range slices.Concat(watchDamages, listDamages) {
		for _, api := range []string{facts.APIKubernetes, facts.APIEtcd} {
			if d.api != "" && d.api != api {
				continue
			}
			t.Run(d.name+"/"+api, func(t *testing.T) {
				t.Parallel()
				done := 0
				for seed := uint64(5000); done < times && seed < 5000+uint64(times)*40; seed++ {
					b := &broken{world: simulate(api, seed, 600)}
					if b.c = facts.NewCollections(b.run); !d.do(b) {
						continue
					}
					done++
					verdicts := verdictsOn(b.run)
					for _, name := range slices.Sorted(maps.Keys(verdicts)) {
						f := verdicts[name]
						if f.Verdict == Fail && name != d.must && !slices.Contains(d.may, name) {
							t.Fatalf("seed %d: %s accuses: %s\n%q", seed, name, f.Sentence, f.Evidence)
						}
						if f.Verdict == Fail && (f.Exhibit == nil || len(f.Exhibit.Spans) == 0) {
							t.Fatalf("seed %d: %s shows nothing", seed, name)
						}
					}
					if f := verdicts[d.must]; f.Verdict != Fail {
						t.Fatalf("seed %d: %s says %s: %s", seed, d.must, f.Verdict, f.Sentence)
					} else if done == 1 {
						t.Logf("%s: %s\n%+v", d.must, f.Sentence, f.Exhibit.Spans)
					}
				}
				if done < times {
					t.Errorf("done %d times only", done)
				}
			})
		}
	}
}

// What the timeline claims to know is what was.
func TestTimelineKnows(t *testing.T) {
	for _, api := range []string{facts.APIKubernetes, facts.APIEtcd} {
		known, unknown := 0, 0
		for seed := range uint64(300) {
			w := simulate(api, seed, 600)
			tl := facts.NewCollections(w.run).Timelines[facts.CollectionOf{API: api, Name: "things"}]
			for version := uint64(100); version <= w.rev; version++ {
				state := w.at(version)
				for _, key := range tl.Keys {
					c, ok := tl.Lines[key].At(version)
					if !ok {
						unknown++
						continue
					}
					known++
					p := state[key]
					if (p == nil) != (c == nil) || p != nil && (p.value != c.Value || p.rev != c.Revision || p.group != c.Group) {
						t.Fatalf("%s, seed %d: %s in version %d was %+v, not %+v", api, seed, key, version, p, c)
					}
				}
			}
		}
		t.Logf("%s: %d of %d states are known", api, known, known+unknown)
		if known < unknown {
			t.Errorf("%s: only %d of %d states are known", api, known, known+unknown)
		}
	}
}
