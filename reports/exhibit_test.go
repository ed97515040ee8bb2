package reports

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-ha/holdfast/framework/judge"
	"github.com/holdfast-ha/holdfast/framework/record"
)

// staleRead is a read that missed a write made while the API server was dead.
func staleRead() *judge.Exhibit {
	return &judge.Exhibit{Title: "No order explains these 4 operations on r1", Spans: []judge.Span{
		{Lane: "node-1/0", Label: `create r1 to "c0-1", version 811`, From: sec(3.2), To: sec(3.2041)},
		{Lane: "node-2/0", Label: `update r1 to "c2-7" replacing version 811 (unknown)`, From: sec(19.998), To: sec(24.998), Open: true},
		{Lane: "node-1/0", Label: `patch r1 to "c0-9", version 932`, From: sec(20.7), To: sec(20.7123)},
		{Lane: "node-3/1", Label: `get r1 = "c0-1", version 811`, From: sec(20.7141), To: sec(20.7186), Culprit: true},
		{Lane: "watch w1", Label: `modified r1 = "c0-9", version 932`, From: sec(20.715), To: sec(20.715)},
	}}
}

// withExhibit returns the results of a run in which a read missed an acknowledged write, as the
// exhibit shows it.
func withExhibit(e *judge.Exhibit) []judge.Result {
	results := fixtureResults()
	for i := range results {
		r := &results[i]
		switch {
		case r.Scenario != "api-server-killed":
		case r.Requirement == "HA-CL-003":
			r.Violated = &judge.Period{From: sec(20.1), To: sec(29)}
		case r.Requirement == "HA-INV-001":
			r.Verdict, r.Exhibit, r.Violated = judge.Fail, e, &judge.Period{From: sec(20.7141), To: sec(20.7186)}
			r.Sentence = `The history of reads and writes must be linearizable: that of r1 is not. node-3/1's get through node-3 returning "c0-1", called at 20.714s, ` +
				`succeeded although node-1/0's patch through node-1 of "c0-9" had been acknowledged at 20.712s.`
			r.Evidence = []string{
				`get of r1 through node-3 by node-3/1 = "c0-1", 20.714s to 20.719s`,
				`patch of r1 through node-1 by node-1/0 to "c0-9", 20.700s to 20.712s`,
				`create of r1 through node-1 by node-1/0 to "c0-1", 3.200s to 3.204s`,
				`update of r1 through node-2 by node-2/0 (unknown: EOF), 19.998s to 24.998s`,
			}
		}
	}
	return results
}

func TestExhibit(t *testing.T) {
	results := withExhibit(staleRead())
	i := slices.IndexFunc(results, func(r judge.Result) bool { return r.Exhibit != nil })
	again := results[i]
	again.Requirement, again.Exhibit = "HA-QR-001", staleRead()
	page, err := renderHTML(input{New(fixtureRun(), append(results, again), nil), fixtureRecords(), ""})
	if err != nil {
		t.Fatal(err)
	}
	shown := regexp.MustCompile(`(?s)<details open class="exhibit".*?</details>`).FindAll(page, -1)
	if len(shown) != 1 || !strings.Contains(string(shown[0]), "HA-INV-001, HA-QR-001") {
		t.Fatalf("%d exhibits, want one for both results:\n%s", len(shown), shown)
	}
	for _, want := range []string{"span culprit", "span open", `"injected"`, "kill kube-apiserver on node-2", "node-1, term 2", "never answered", "20.7186s"} {
		if !strings.Contains(string(shown[0]), want) {
			t.Errorf("the drawing lacks %q", want)
		}
	}
	compareGolden(t, "exhibit.html", shown[0])
}

func TestExhibitIsInResults(t *testing.T) {
	dir := t.TempDir()
	if err := Write(dir, fixtureRun(), withExhibit(staleRead()), fixtureRecords(), nil); err != nil {
		t.Fatal(err)
	}
	r, err := Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(r.Results, func(r judge.Result) bool { return r.Exhibit != nil })
	if i < 0 || !slices.Equal(r.Results[i].Exhibit.Spans, staleRead().Spans) {
		t.Errorf("the exhibit was lost: %+v", r.Results)
	}
}

// The text of an exhibit comes from a cluster, and its times may have any value.
func TestOddExhibits(t *testing.T) {
	for _, e := range []*judge.Exhibit{
		{Title: hostile, Spans: []judge.Span{{Lane: hostile, Label: hostile}}},
		{Title: "backwards", Spans: []judge.Span{{Lane: "a", Label: "x", From: sec(5), To: sec(4)}, {Lane: "a", From: sec(1), To: sec(900)}}},
		{Title: "after the end", Spans: []judge.Span{{Lane: "a", From: sec(5000), To: sec(5001), Open: true}}},
	} {
		for _, run := range []*record.Run{apiServerKilled(), {}} {
			shown := exhibitTimeline(run, e)
			if _, err := json.Marshal(shown); err != nil {
				t.Errorf("%s: %v", e.Title, err)
			}
			shown.eachBar(func(b *bar) {
				if b.from < 0 || b.to < b.from && e.Title != "backwards" || b.to > shown.End {
					t.Errorf("%s: a bar from %d to %d on an axis that ends at %d", e.Title, b.from, b.to, shown.End)
				}
			})
		}
	}
	if views := viewExhibits(apiServerKilled(), withExhibit(&judge.Exhibit{Title: "empty"})); len(views) != 0 {
		t.Errorf("an exhibit of nothing is shown: %+v", views)
	}
}
