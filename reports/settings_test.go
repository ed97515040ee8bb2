package reports

import (
	"strings"
	"testing"
	"time"
)

// The first screen has the run's length and the settings of its clusters, whether one or many.
func TestSettingsOfRun(t *testing.T) {
	own := func(e, a time.Duration) Cluster {
		return Cluster{Settings: map[string]time.Duration{"E": e, "L": 15 * time.Second, "A": a, "Z": time.Second}}
	}
	for want, clusters := range map[string][]Cluster{
		"": nil,
		"L = 15s (lease duration), E = 1s (etcd's election timeout), A = 1m00s (interval of add-on managers), Z = 1s":             {own(time.Second, time.Minute)},
		"L = 15s (lease duration), E = 1s or 3s (etcd's election timeout), A = 0s or 1m00s (interval of add-on managers), Z = 1s": {own(3*time.Second, time.Minute), {}, own(time.Second, 0)},
	} {
		run := fixtureRun()
		run.Clusters = clusters
		if got := settingsText(run); got != want {
			t.Errorf("%d clusters:\n got %s\nwant %s", len(clusters), got, want)
		}
		page, err := renderHTML(input{Results: New(run, nil, nil)})
		if err != nil {
			t.Fatal(err)
		}
		first, _, _ := strings.Cut(string(page), `<div class="tiles">`)
		if !strings.Contains(first, "took 3m34s") {
			t.Errorf("%d clusters: the first screen lacks the run's length", len(clusters))
		}
		if shown := strings.Contains(first, "L = 15s"); shown != (want != "") || strings.Contains(first, "E = 1s or 3s") != strings.Contains(want, "or 3s") {
			t.Errorf("%d clusters: the first screen has the settings: %t", len(clusters), shown)
		}
	}
	if got := tookText(Run{Started: fixtureStart}); got != "" {
		t.Errorf("a run that did not end took %q", got)
	}
}
