package judge

import (
	"maps"
	"slices"
	"testing"

	"github.com/holdfast-ha/holdfast/framework/record"
)

// damage breaks a legal history in one place, where the record suffices to show it. It
// returns false where the history has no such place.
type damage struct {
	name string
	api  string // empty for both
	do   func(*broken) bool
	must string   // the judge that has to accuse
	may  []string // those that may accuse as well
}

// broken is a world to be broken, with what can be known of it.
type broken struct {
	*world
	c *collections
}

// strong tells whether the write of a version was acknowledged with it.
func (b *broken) strong(e record.Event) bool {
	w := b.c.timelines[collectionOf{b.api, "things"}].byValue[pairOf{e.Key, e.Value}]
	return e.Type != record.EventBookmark && e.Type != record.EventDeleted && w != nil && w.op.Outcome == record.OK
}

// spot is a place in the record: message i of a watch, and its place among all events.
type spot struct {
	s     *stream
	i, at int
}

func (p spot) event() *record.Event { return p.s.messages[p.i].Event }

// spots returns the places that fit, of watches of which it is known where they began
// to tell of changes.
func (b *broken) spots(fits func(s *stream, i int) bool) []spot {
	at := map[*record.Event]int{}
	for i := range b.run.Events {
		at[&b.run.Events[i].V] = i
	}
	var list []spot
	for _, s := range b.c.streams {
		for i := range s.messages {
			if s.opened && s.base > 0 && i >= s.begin && fits(s, i) {
				list = append(list, spot{s, i, at[s.messages[i].Event]})
			}
		}
	}
	return list
}

func (b *broken) spot(fits func(s *stream, i int) bool) (spot, bool) { return pick(b, b.spots(fits)) }

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

// firm tells whether where the watch began is known without message i.
func firm(s *stream, i int) bool { return s.from() > 0 || s.watch.Initial || i > s.begin }

// past tells whether the watch shows after message i that it is past it.
func past(s *stream, i int) bool {
	return firm(s, i) && slices.ContainsFunc(s.messages[i+1:], func(m message) bool { return m.version > s.messages[i].version })
}

func (b *broken) strongSpot(more func(s *stream, i int) bool) (spot, bool) {
	return b.spot(func(s *stream, i int) bool { return b.strong(*s.messages[i].Event) && more(s, i) })
}

// sureBefore tells whether it is known what was there before the change of message i.
func sureBefore(s *stream, i int) (old *keyChange, sure bool) {
	e, _, known := s.shown(s.messages[i])
	if !known {
		return nil, false
	}
	j, _ := e.line.find(e.revision)
	return e.line.before(j), e.line.sure(j)
}

func (b *broken) listSpot(fits func(l listing) bool) (*record.List, listing, bool) {
	var list []listing
	for _, l := range b.c.lists {
		if l.Outcome == record.OK && fits(l) {
			list = append(list, l)
		}
	}
	l, ok := pick(b, list)
	return l.List, l, ok
}

// changeOf returns what really happened in a version to a key.
func (b *broken) changeOf(id versionOf) simChange {
	i := slices.IndexFunc(b.history, func(c simChange) bool { return c.key == id.key && c.rev == id.revision })
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
		for _, api := range []string{apiKubernetes, apiEtcd} {
			if d.api != "" && d.api != api {
				continue
			}
			t.Run(d.name+"/"+api, func(t *testing.T) {
				t.Parallel()
				done := 0
				for seed := uint64(5000); done < times && seed < 5000+uint64(times)*40; seed++ {
					b := &broken{world: simulate(api, seed, 600)}
					if b.c = newCollections(b.run); !d.do(b) {
						continue
					}
					done++
					verdicts := verdictsOn(b.run)
					for _, name := range slices.Sorted(maps.Keys(verdicts)) {
						f := verdicts[name]
						if f.verdict == Fail && name != d.must && !slices.Contains(d.may, name) {
							t.Fatalf("seed %d: %s accuses: %s\n%q", seed, name, f.sentence, f.evidence)
						}
						if f.verdict == Fail && (f.exhibit == nil || len(f.exhibit.Spans) == 0) {
							t.Fatalf("seed %d: %s shows nothing", seed, name)
						}
					}
					if f := verdicts[d.must]; f.verdict != Fail {
						t.Fatalf("seed %d: %s says %s: %s", seed, d.must, f.verdict, f.sentence)
					} else if done == 1 {
						t.Logf("%s: %s\n%+v", d.must, f.sentence, f.exhibit.Spans)
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
	for _, api := range []string{apiKubernetes, apiEtcd} {
		known, unknown := 0, 0
		for seed := range uint64(300) {
			w := simulate(api, seed, 600)
			tl := newCollections(w.run).timelines[collectionOf{api, "things"}]
			for version := uint64(100); version <= w.rev; version++ {
				state := w.at(version)
				for _, key := range tl.keys {
					c, ok := tl.lines[key].at(version)
					if !ok {
						unknown++
						continue
					}
					known++
					p := state[key]
					if (p == nil) != (c == nil) || p != nil && (p.value != c.value || p.rev != c.revision || p.group != c.group) {
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
