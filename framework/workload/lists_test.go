package workload

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-ha/holdfast/framework/record"
	"github.com/holdfast-ha/holdfast/framework/workload/apitest"
	"github.com/holdfast-ha/holdfast/framework/workload/client"
)

// contents returns the registers at a revision, according to the responses to the clients'
// writes: "key value group".
func contents(t *testing.T, run *record.Run, api, group string, at uint64) (all []string) {
	t.Helper()
	type state struct {
		revision uint64
		op       record.Op
	}
	keys := map[string]state{}
	for _, o := range run.Ops {
		op := o.V
		if op.API != api || op.Collection == "" || op.Outcome != record.OK || op.Type == record.OpGet {
			continue
		}
		n := number(op.Revision)
		if n == 0 {
			t.Fatalf("a write without a revision: %+v", op)
		}
		if n <= at && n > keys[op.Key].revision {
			keys[op.Key] = state{n, op}
		}
	}
	for key, s := range keys {
		if s.op.Type != record.OpDelete && (group == "" || s.op.Group == group) {
			all = append(all, key+" "+s.op.Value+" "+s.op.Group)
		}
	}
	slices.Sort(all)
	return all
}

func items(l record.List) (all []string) {
	for _, i := range l.Items {
		all = append(all, i.Key+" "+i.Value+" "+i.Group)
	}
	return all
}

// checkLists checks that each list shows the state at its revision, and returns how many there
// were of each kind.
func checkLists(t *testing.T, run *record.Run, api string) map[string]int {
	t.Helper()
	sorts := map[string]int{}
	for _, o := range run.Lists {
		l := o.V
		if l.API != api {
			continue
		}
		if l.Outcome != record.OK || len(l.Pages) == 0 || l.Collection == "" || l.Return < l.Call {
			t.Fatalf("%+v", l)
		}
		n := 0
		for _, p := range l.Pages {
			n += p.Items
			if p.Revision != l.Pages[0].Revision || l.Limit > 0 && p.Items > l.Limit || p.Return < p.Call {
				t.Errorf("page %+v of %+v", p, l)
			}
		}
		if n != len(l.Items) {
			t.Errorf("%d items, %d in pages: %+v", len(l.Items), n, l)
		}
		if got, want := items(l), contents(t, run, api, l.Group, number(l.Pages[0].Revision)); !slices.Equal(got, want) {
			t.Errorf("list %s of group %q at %s:\n got %q\nwant %q", l.Match, l.Group, l.Pages[0].Revision, got, want)
		}
		sorts[string(l.Match)+l.Purpose]++
		if (l.Match == record.MatchExact || l.Match == record.MatchNotOlderThan) != (l.Asked != "") {
			t.Errorf("%+v", l)
		}
		if l.Match == record.MatchExact && l.Pages[0].Revision != l.Asked {
			t.Errorf("%+v", l)
		}
		if len(l.Pages) > 1 {
			sorts["paged"]++
		}
		if l.Group != "" {
			sorts["group"]++
		}
	}
	return sorts
}

// noDeletions refuses deletions: Kubernetes does not return their revisions, which a test needs
// that relies on the clients' responses.
func noDeletions(c *apitest.Cluster) {
	for i := range c.Nodes() {
		c.Server(i).Hook(func(w http.ResponseWriter, r *http.Request) bool {
			if r.Method == http.MethodDelete {
				apitest.Fail(w, 403, "Forbidden", "no deletions in this test")
			}
			return r.Method == http.MethodDelete
		})
	}
}

func TestLists(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := apitest.NewInMemory(t, 2)
		noDeletions(c)
		w, read := recording(t)
		traffic, err := Start(t.Context(), Config{Seed: 3, Cluster: c, Settings: Settings{Profiles: []string{ProfileRegisters, ProfileLists},
			Registers: RegisterSettings{Interval: 4 * time.Millisecond}, Lists: ListSettings{Interval: 10 * time.Millisecond}}}, w)
		if err != nil {
			t.Fatal(err)
		}
		from := c.Revision()
		waitFor(t, "traffic", func() bool { return c.Revision() > from+400 })
		traffic.Stop()
		sorts := checkLists(t, read(), apiKubernetes)
		for _, sort := range []string{"unset", "any", "not-older-than", "exact", "paged", "group"} {
			if sorts[sort] < 3 {
				t.Errorf("only %d of %s: %v", sorts[sort], sort, sorts)
			}
		}
		if sorts["unsetfinal-read"] != 2 {
			t.Errorf("final lists: %v", sorts)
		}
	})
}

func TestListRefused(t *testing.T) {
	c := apitest.New(t, 1)
	w, read := recording(t)
	r, err := newRegisters(c.Entrances()[0], w, "test", "ns", "", time.Second)
	if err != nil {
		t.Fatal(err)
	}
	r.of = &collection{name: "x"}
	first := r.create(t.Context(), "a", content{value: "1", group: "a"})
	r.create(t.Context(), "b", content{value: "2", group: "b"})
	c.Compact()
	gone := r.list(t.Context(), listing{match: record.MatchExact, asked: first.Revision})
	if gone.Outcome != record.Refused || gone.Status != http.StatusGone || len(gone.Items) != 0 || !strings.Contains(gone.Error, "too old") {
		t.Errorf("%+v", gone)
	}
	// The history goes between the pages.
	pages := 0
	c.Server(0).Hook(func(http.ResponseWriter, *http.Request) bool {
		if pages++; pages == 2 {
			r.of = &collection{name: "y"}
			c.Set("/api/v1/namespaces/ns/configmaps/c", `{"kind":"ConfigMap"}`)
			c.Compact()
		}
		return false
	})
	gone = r.list(t.Context(), listing{match: record.MatchUnset, limit: 1})
	if gone.Outcome != record.Refused || gone.Status != http.StatusGone || len(gone.Pages) != 2 || len(gone.Items) != 1 {
		t.Errorf("%+v", gone)
	}
	c.Server(0).Hook(func(w http.ResponseWriter, _ *http.Request) bool {
		_, _ = w.Write([]byte(`{"kind":"Pod"}`))
		return true
	})
	if odd := r.list(t.Context(), listing{match: record.MatchUnset}); odd.Outcome != record.Unknown || odd.Error == "" {
		t.Errorf("%+v", odd)
	}
	if n := len(read().Lists); n != 3 {
		t.Errorf("%d lists in the record", n)
	}
}

// A successful response that is not a list is not an answered list, and the record shows it.
func TestListOfSomethingElse(t *testing.T) {
	c := apitest.New(t, 1)
	w, read := recording(t)
	r, err := newRegisters(c.Entrances()[0], w, "test", "ns", "", time.Second)
	if err != nil {
		t.Fatal(err)
	}
	r.of = &collection{name: "x"}
	answers := []string{``, `{}`, `<html>sorry</html>`, `{"kind":"PodList","metadata":{"resourceVersion":"7"}}`, `{"kind":"ConfigMapList","metadata":{}}`}
	for _, answer := range answers {
		c.Server(0).Hook(func(w http.ResponseWriter, _ *http.Request) bool {
			_, _ = w.Write([]byte(answer))
			return true
		})
		r.list(t.Context(), listing{match: record.MatchUnset})
	}
	for i, o := range read().Lists {
		want := "status 200, but no list: " + answers[i]
		if l := o.V; l.Outcome != record.Unknown || l.Status != http.StatusOK || l.Other != want || len(l.Pages) != 1 || len(l.Items) > 0 {
			t.Errorf("%q: %+v", answers[i], l)
		}
	}
}

// A list or a watch that an API server refuses is in the record with the time after which it may be
// repeated.
func TestRefusalsSayWhenToRetry(t *testing.T) {
	c := apitest.New(t, 1)
	w, read := recording(t)
	r, err := newRegisters(c.Entrances()[0], w, "test", "ns", "", time.Second)
	if err != nil {
		t.Fatal(err)
	}
	r.of = &collection{name: "x"}
	for _, header := range []string{"2", ""} {
		c.Server(0).Hook(func(w http.ResponseWriter, _ *http.Request) bool {
			if header != "" {
				w.Header().Set("Retry-After", header)
			}
			apitest.Fail(w, http.StatusServiceUnavailable, "ServiceUnavailable", "apiserver is shutting down")
			return true
		})
		r.list(t.Context(), listing{match: record.MatchUnset})
		r.watch(t.Context(), "w"+header, watching{from: "1"}, new(progress), func() bool { return false })
	}
	run := read()
	for i, want := range []int{2, client.NoRetryAfter} {
		if l := run.Lists[i].V; l.Outcome != record.Unknown || l.Status != http.StatusServiceUnavailable || l.RetryAfter != want {
			t.Errorf("%+v, want to retry after %d", l, want)
		}
		if got := run.Watches[i].V; got.Phase != record.WatchRefused || got.Status != http.StatusServiceUnavailable || got.RetryAfter != want {
			t.Errorf("%+v, want to retry after %d", got, want)
		}
	}
}
