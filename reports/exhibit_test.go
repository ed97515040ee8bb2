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
		{Lane: "node-2/0", Label: `update r1 to "c2-7" over version 811 (unknown)`, From: sec(19.998), To: sec(24.998), Open: true},
		{Lane: "node-1/0", Label: `patch r1 to "c0-9", version 932`, From: sec(20.7), To: sec(20.7123)},
		{Lane: "node-3/1", Label: `get r1 = "c0-1", version 811`, From: sec(20.7141), To: sec(20.7186), Culprit: true},
		{Lane: "watch w1", Label: `modified r1 = "c0-9", version 932`, From: sec(20.715), To: sec(20.715)},
	}}
}

func withExhibit(e *judge.Exhibit) []judge.Result {
	results := fixtureResults()
	for i := range results {
		if results[i].Scenario == "api-server-killed" && (results[i].Requirement == "HA-CL-003" || results[i].Requirement == "HA-INV-001") {
			results[i].Verdict, results[i].Exhibit, results[i].Violated = judge.Fail, e, &judge.Period{From: sec(20.7), To: sec(24)}
		}
	}
	return results
}

func TestExhibit(t *testing.T) {
	page, err := renderHTML(input{New(fixtureRun(), withExhibit(staleRead()), nil), fixtureRecords(), ""})
	if err != nil {
		t.Fatal(err)
	}
	shown := regexp.MustCompile(`(?s)<details open class="exhibit">.*?</details>`).FindAll(page, -1)
	if len(shown) != 1 || !strings.Contains(string(shown[0]), "HA-CL-003, HA-INV-001") {
		t.Fatalf("%d exhibits, want one for both results:\n%s", len(shown), shown)
	}
	for _, want := range []string{"span culprit", "span open", `"injected"`, "kill kube-apiserver on node-2", "never answered", "20.7186s"} {
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
				if b.from < 0 || b.to < b.from && e.Title != "backwards" || b.to > shown.end {
					t.Errorf("%s: a bar from %d to %d on an axis that ends at %d", e.Title, b.from, b.to, shown.end)
				}
			})
		}
	}
	if views := viewExhibits(apiServerKilled(), withExhibit(&judge.Exhibit{Title: "empty"})); len(views) != 0 {
		t.Errorf("an exhibit of nothing is shown: %+v", views)
	}
}
