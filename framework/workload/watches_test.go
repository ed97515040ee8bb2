package workload

import (
	"context"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-ha/holdfast/framework/record"
	"github.com/holdfast-ha/holdfast/framework/workload/apitest"
)

// life is what the record has of one watch.
type life struct {
	opened, ended record.Watch
	events        []record.Event
}

// lives returns the watches of an API that were opened, all of which must have ended.
func lives(t *testing.T, run *record.Run, api string) map[string]*life {
	t.Helper()
	all := map[string]*life{}
	for _, o := range run.Watches {
		w := o.V
		switch {
		case w.API != api:
		case w.Seen < w.Called || w.Client == "" || w.Entrance == "" || w.Collection == "":
			t.Fatalf("%+v", w)
		case w.Phase == record.WatchOpened && all[w.ID] == nil:
			all[w.ID] = &life{opened: w}
		case w.Phase == record.WatchEnded && all[w.ID] != nil:
			all[w.ID].ended = w
		case w.Phase == record.WatchRefused:
		default:
			t.Fatalf("%+v", w)
		}
	}
	for _, o := range run.Events {
		if l := all[o.V.Watch]; l != nil {
			l.events = append(l.events, o.V)
		}
	}
	for id, l := range all {
		if l.ended.ID == "" {
			t.Errorf("watch %s never ended", id)
		}
	}
	return all
}

// checkLives checks that what each watch of all keys, or of one, shows between
// two versions is what the clients wrote, and that resumed watches continue where
// their predecessors were. It returns how many there were of each sort.
func checkLives(t *testing.T, run *record.Run, api string) map[string]int {
	t.Helper()
	all, sorts := lives(t, run, api), map[string]int{}
	for id, l := range all {
		w := l.opened
		for sort, is := range map[string]bool{
			"key": w.Key != "", "group": w.Group != "", "from": w.From != "" && w.Resumes == "" && !w.Initial, "empty": w.From == "" && !w.Initial,
			"initial": w.Initial && w.From == "", "initial from": w.Initial && w.From != "", "resumed": w.Resumes != "", "final": l.ended.Purpose == "final-read",
			"late": strings.Contains(l.ended.Error, "not seen in time"),
		} {
			if is {
				sorts[sort]++
			}
		}
		var got []string
		last := uint64(0)
		for _, e := range l.events {
			n := number(e.Revision)
			if n < last && w.From != "" && !w.Initial {
				t.Errorf("watch %s went back: %+v", id, l.events)
			}
			last = max(last, n)
			if e.Type == record.EventBookmark {
				sorts["bookmark"]++
			} else {
				got = append(got, e.Revision+" "+e.Key+" "+e.Value+" "+e.Group)
			}
		}
		if old := all[w.Resumes]; w.Resumes != "" {
			if old == nil || w.From == "" || old.opened.Key != w.Key || old.opened.Group != w.Group || old.ended.Seen > w.Called {
				t.Errorf("%+v resumes %+v", w, old)
			} else if old.opened.Entrance != w.Entrance { // the same only after a refusal elsewhere
				sorts["elsewhere"]++
			}
		}
		if w.From == "" || w.Initial || w.Group != "" {
			continue
		}
		var want []string
		for _, o := range run.Ops {
			op := o.V
			from := number(w.From)
			if api == apiKubernetes {
				from++
			}
			if n := number(op.Revision); op.API == api && op.Collection != "" && op.Outcome == record.OK && op.Type != record.OpGet &&
				n >= from && n <= last && (w.Key == "" || w.Key == op.Key) {
				want = append(want, op.Revision+" "+op.Key+" "+op.Value+" "+op.Group)
			}
		}
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("watch %s from %s to %d:\n got %q\nwant %q", id, w.From, last, got, want)
		}
	}
	return sorts
}

// checkFinal checks that watches ended because they had shown the last write. One that timed out
// just then has shown it too.
func checkFinal(t *testing.T, sorts map[string]int, watches int) {
	t.Helper()
	if n := sorts["final"]; n < watches/2 || n > watches || sorts["late"] > 0 {
		t.Errorf("of %d watches, %d ended with the last write, %d without: %v", watches, n, sorts["late"], sorts)
	}
}

func TestWatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := apitest.NewInMemory(t, 3)
		noDeletions(c)
		w, read := recording(t)
		traffic, err := Start(t.Context(), Config{Seed: 5, Cluster: c, Settings: Settings{Profiles: []string{ProfileRegisters, ProfileWatches},
			Registers: RegisterSettings{Interval: 30 * time.Millisecond},
			Watches:   WatchSettings{ClientsPerEntrance: 5, Lifetime: 300 * time.Millisecond}}}, w)
		if err != nil {
			t.Fatal(err)
		}
		waitFor(t, "watches", func() bool { return traffic.watches.Load() > 160 })
		traffic.Stop()
		sorts := checkLives(t, read(), apiKubernetes)
		for _, sort := range []string{"key", "group", "from", "empty", "initial", "initial from", "resumed", "elsewhere", "bookmark"} {
			if sorts[sort] < 5 {
				t.Errorf("only %d of %s: %v", sorts[sort], sort, sorts)
			}
		}
		checkFinal(t, sorts, 15)
	})
}

// A streaming list of a version that the API server does not have is requested without a version
// next. One that breaks before its end is started again: its client has no state to continue from.
func TestStreamingListFromVersion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := apitest.NewInMemory(t, 1)
		w, read := recording(t)
		r, err := newRegisters(c.Entrances()[0], w, "test", "ns", "", 5*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		r.of = &collection{name: "x"}
		r.of.saw("7")
		p := &watches{t: &Traffic{w: w, cfg: Config{Settings: Settings{Watches: WatchSettings{Lifetime: time.Minute}}}}, settings: WatchSettings{Lifetime: time.Minute}, stopping: make(chan struct{})}
		p.last, p.enough = context.WithCancelCause(t.Context())
		watch := &watcher{watches: p, of: r.of, ways: []way{r}, random: rand.New(rand.NewPCG(1, 1)),
			choose: func(*watcher) (watching, bool) { return watching{initial: true, from: "7"}, false }}
		var asked []string
		c.Server(0).Hook(func(w http.ResponseWriter, r *http.Request) bool {
			q := r.URL.Query()
			asked = append(asked, q.Get("sendInitialEvents")+" "+q.Get("resourceVersionMatch")+" "+q.Get("resourceVersion"))
			switch len(asked) {
			case 1:
				w.WriteHeader(http.StatusOK)
				_, _ = w.Write([]byte(`{"type":"ADDED","object":{"metadata":{"name":"k","resourceVersion":"5"}}}`))
			case 2:
				apitest.Fail(w, http.StatusGatewayTimeout, "Timeout", "Too large resource version")
			default:
				p.enough(errTooLate)
				apitest.Fail(w, http.StatusInternalServerError, "InternalError", "over")
			}
			return true
		})
		for p.last.Err() == nil {
			watch.story()
			asked = append(asked, "next story")
		}
		want := []string{"true NotOlderThan 7", "true NotOlderThan 7", "true NotOlderThan "}
		if len(asked) < 3 || !slices.Equal(asked[:3], want) {
			t.Errorf("asked for %q, want %q", asked, want)
		}
		for _, o := range read().Watches {
			if o.V.Resumes != "" {
				t.Errorf("%+v", o.V)
			}
		}
	})
}

// The first client of each entrance stays with it, goes elsewhere when its watch breaks or
// is refused, and comes back.
func TestWatchesAtHome(t *testing.T) {
	t.Parallel()
	c := apitest.New(t, 3)
	noDeletions(c)
	w, read := recording(t)
	traffic, err := Start(t.Context(), Config{Cluster: c, Settings: Settings{Profiles: []string{ProfileRegisters, ProfileWatches},
		Registers: RegisterSettings{Interval: 10 * time.Millisecond}, Watches: WatchSettings{Lifetime: 200 * time.Millisecond}}}, w)
	if err != nil {
		t.Fatal(err)
	}
	more := func(what string) {
		t.Helper()
		from := traffic.watches.Load()
		waitFor(t, what, func() bool { return traffic.watches.Load() > from+60 })
	}
	more("watches")
	broken := w.Now()
	c.Server(0).Hook(func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Query().Get("watch") == "" {
			return false
		}
		w.WriteHeader(http.StatusInternalServerError)
		return true
	})
	more("watches elsewhere")
	back := w.Now()
	c.Server(0).Hook(nil)
	more("watches again")
	traffic.Stop()
	run := read()
	away := map[string]bool{}   // clients whose last watch was refused or broke
	failed := map[string]bool{} // clients with a failed list, which also move on
	for _, o := range run.Lists {
		failed[o.V.Client] = failed[o.V.Client] || o.V.Outcome != record.OK
	}
	at := map[string]int{} // watches of the first client of node-1
	for _, o := range run.Watches {
		name, settled := strings.CutSuffix(o.V.Client, "/0")
		if !settled {
			continue
		}
		home := strings.HasSuffix(name, "/"+o.V.Entrance)
		switch {
		case o.V.Phase != record.WatchOpened:
			away[o.V.Client] = o.V.Phase == record.WatchRefused || o.V.Error != "" && !strings.HasPrefix(o.V.Error, errClosed.Error())
		case !home && !away[o.V.Client] && !failed[o.V.Client]:
			t.Errorf("%s watches through %s, without need", o.V.Client, o.V.Entrance)
		}
		if o.V.Phase == record.WatchOpened && strings.HasSuffix(name, "/node-1") {
			switch {
			case home && o.V.Called < broken:
				at["before"]++
			case !home && o.V.Called > broken && o.V.Called < back:
				at["elsewhere"]++
			case home && o.V.Called > back:
				at["after"]++
			}
		}
	}
	if at["before"] == 0 || at["elsewhere"] == 0 || at["after"] == 0 {
		t.Errorf("the first client of node-1 watched %v", at)
	}
}

// A client that resumes too late lists again, and the record says so.
func TestWatchGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := apitest.NewInMemory(t, 2)
		w, read := recording(t)
		traffic, err := Start(t.Context(), Config{Cluster: c, Settings: Settings{Profiles: []string{ProfileRegisters, ProfileWatches},
			Registers: RegisterSettings{Interval: 10 * time.Millisecond},
			Watches:   WatchSettings{Lifetime: 150 * time.Millisecond}}}, w)
		if err != nil {
			t.Fatal(err)
		}
		for until := time.Now().Add(2 * time.Second); time.Now().Before(until); time.Sleep(20 * time.Millisecond) {
			c.Compact()
		}
		traffic.Stop()
		gone := map[string]record.Nanos{} // by client
		run := read()
		for _, o := range run.Watches {
			if o.V.Status == http.StatusGone {
				gone[o.V.Client] = o.V.Seen
			}
		}
		if len(gone) < 2 {
			t.Fatalf("the history was gone for %d clients", len(gone))
		}
		listed := 0
		for _, o := range run.Lists {
			if at := gone[o.V.Client]; at > 0 && o.V.Call < at {
				listed++
			}
		}
		if listed == 0 {
			t.Error("no client listed again")
		}
	})
}

// A watch that receives no more changes is waited for, and its end says so.
func TestWatchLosesLastWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := apitest.NewInMemory(t, 1)
		w, read := recording(t)
		c.Server(0).Hook(func(w http.ResponseWriter, r *http.Request) bool {
			if r.URL.Query().Get("watch") == "" {
				return false
			}
			w.WriteHeader(http.StatusOK)
			w.(http.Flusher).Flush()
			<-r.Context().Done()
			return true
		})
		traffic, err := Start(t.Context(), Config{Cluster: c, Settings: Settings{Profiles: []string{ProfileRegisters, ProfileWatches}}}, w)
		if err != nil {
			t.Fatal(err)
		}
		traffic.profiles[1].(*watches).patience = 300 * time.Millisecond
		waitFor(t, "watches", func() bool { return traffic.watches.Load() == 2 })
		began := time.Now()
		traffic.Stop()
		if took := time.Since(began); took < 300*time.Millisecond || took > 5*time.Second {
			t.Errorf("it took %s", took)
		}
		for id, l := range lives(t, read(), apiKubernetes) {
			if l.ended.Purpose != "final-read" || !strings.Contains(l.ended.Error, "not seen in time") || len(l.events) > 0 {
				t.Errorf("watch %s: %+v", id, l)
			}
		}
	})
}

// Refusals and odd messages are in the record as what they are.
func TestWatchRefused(t *testing.T) {
	c := apitest.New(t, 1)
	w, read := recording(t)
	r, err := newRegisters(c.Entrances()[0], w, "test", "ns", "", time.Second)
	if err != nil {
		t.Fatal(err)
	}
	r.of = &collection{name: "x"}
	tests := []struct {
		status int // of the answer
		body   string
		phase  record.WatchPhase
		want   int // the status that the record has
		text   string
	}{
		{403, `{}`, record.WatchRefused, 403, "status 403"},
		{410, `{"kind":"Status","status":"Failure","reason":"Expired"}`, record.WatchRefused, 410, "Expired"},
		{200, `{"type":"ERROR","object":{"kind":"Status","code":410,"message":"too old"}}`, record.WatchEnded, 410, "too old"},
		{200, `{"type":"ERROR","object":{"kind":"Status","code":500,"message":"etcd"}}`, record.WatchEnded, 500, "etcd"},
		{200, `{"type":"SONG","object":{}}`, record.WatchEnded, 0, `"SONG"`},
		{200, `{"type":"ADDED","object":{}}`, record.WatchEnded, 0, "without a version"},
		{200, `{"type":"ADD`, record.WatchEnded, 0, "EOF"},
		{200, ``, record.WatchEnded, 0, ""},
	}
	for i, test := range tests {
		c.Server(0).Hook(func(w http.ResponseWriter, _ *http.Request) bool {
			w.WriteHeader(test.status)
			_, _ = w.Write([]byte(test.body))
			return true
		})
		var seen progress
		seen.begin(0)
		r.watch(t.Context(), strconv.Itoa(i), watching{from: "1"}, &seen, func() bool { return false })
	}
	last := map[string]record.Watch{}
	run := read()
	if len(run.Events) != 1 || run.Events[0].V.Watch != "5" || run.Events[0].V.Type != record.EventAdded || run.Events[0].V.Revision != "" {
		t.Errorf("events: %+v", run.Events)
	}
	for _, o := range run.Watches {
		last[o.V.ID] = o.V
	}
	for i, test := range tests {
		got := last[strconv.Itoa(i)]
		if got.Phase != test.phase || got.Status != test.want || !strings.Contains(got.Error, test.text) || (got.Error == "") != (test.text == "") {
			t.Errorf("%d %s: %+v", test.status, test.body, got)
		}
	}
}
