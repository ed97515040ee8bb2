package reports

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-ha/holdfast/framework/record"
)

// Spent says where time went.
type Spent struct {
	// Waiting is inherent in the scenarios and in the cluster's settings: the steps
	// wait and until.
	Waiting time.Duration `json:"waiting"`
	// Work is injecting, healing, actions, stopping the traffic, and judging.
	Work time.Duration `json:"work"`
	// Overhead is creating and deleting clusters, waiting until fewer of them are busy, and
	// checking that they are in their steady state.
	Overhead time.Duration `json:"overhead"`
}

// Total returns the sum.
func (s Spent) Total() time.Duration { return s.Waiting + s.Work + s.Overhead }

func (s Spent) plus(o Spent) Spent {
	return Spent{s.Waiting + o.Waiting, s.Work + o.Work, s.Overhead + o.Overhead}
}

// SpentOn returns where the time of a scenario went, without judging. It uses the names of the
// phases.
func SpentOn(run *record.Run) Spent {
	var s Spent
	for i, p := range run.Phases {
		end := endOf(run)
		if i+1 < len(run.Phases) {
			end = run.Phases[i+1].At
		}
		took := time.Duration(end - p.At)
		switch kind, _, _ := strings.Cut(p.V.Name, " "); strings.TrimSuffix(kind, ",") {
		case "wait", "until":
			s.Waiting += took
		case "baseline", "recovery":
			s.Overhead += took
		default:
			s.Work += took
		}
	}
	return s
}

// ScenarioTime says where the time of one scenario went.
type ScenarioTime struct {
	Scenario string `json:"scenario"`
	// Cluster is the name of the cluster that it ran on.
	Cluster string `json:"cluster,omitempty"`
	Spent
}

// Cluster is one that scenarios of a run shared.
type Cluster struct {
	Name      string   `json:"name"`
	Scenarios []string `json:"scenarios"`
	Nodes     []Node   `json:"nodes"`
	Versions  Versions `json:"versions"`
	// LoadBalancer is the way clients were spread.
	LoadBalancer string `json:"loadBalancer"`
	// Disk is what etcd's data passed through.
	Disk string `json:"disk"`
	// Arguments are those of components besides the usual, a line for each component.
	Arguments []string `json:"arguments,omitempty"`
	// Settings are what bounds are computed from, by the catalogue's symbols.
	Settings map[string]time.Duration `json:"settings"`
	// Took is the time from the start of its worker to its end, waiting for other clusters
	// included. Made is what making the cluster took of that, and each one that took its place.
	Took time.Duration `json:"took"`
	Made time.Duration `json:"made"`
	// Problem says why it stopped early, or what could not be done; empty if there was no problem.
	Problem string `json:"problem,omitempty"`
}

// Spent returns where the time of all clusters together went. Time of a cluster outside its
// scenarios is overhead.
func (r Run) Spent() Spent {
	total, onClusters := r.OnScenarios(), time.Duration(0)
	for _, c := range r.Clusters {
		onClusters += c.Took
	}
	total.Overhead += max(onClusters-total.Total(), 0)
	return total
}

// OnScenarios returns the time spent on scenarios.
func (r Run) OnScenarios() Spent {
	var total Spent
	for _, s := range r.Times {
		total = total.plus(s.Spent)
	}
	return total
}

// manyRows is the number of rows above which the table that says where the time went is folded.
const manyRows = 20

// timeRow is a line of the table that says where the time went.
type timeRow struct {
	What, Cluster                  string
	Total, Waiting, Work, Overhead string
}

// timeRows returns rows for the scenarios, for the time of clusters outside them, and the sum;
// none if no times are known.
func timeRows(run Run) []timeRow {
	if len(run.Times) == 0 {
		return nil
	}
	row := func(what, cluster string, s Spent) timeRow {
		return timeRow{what, cluster, human(s.Total()), human(s.Waiting), human(s.Work), human(s.Overhead)}
	}
	var rows []timeRow
	for _, s := range run.Times {
		rows = append(rows, row(s.Scenario, s.Cluster, s.Spent))
	}
	all := run.Spent()
	if around := all.Overhead - run.OnScenarios().Overhead; around > 0 {
		rows = append(rows, row("creating and deleting "+Plural(len(run.Clusters), "cluster")+", and waiting for a turn", "", Spent{Overhead: around}))
	}
	return append(rows, row("in all", "", all))
}

func timeText(run Run) string {
	all := run.Spent()
	if len(run.Times) == 0 || all.Total() == 0 {
		return ""
	}
	share := func(d time.Duration) string { return percent(d, all.Total()) }
	return fmt.Sprintf("%s on %s: %s waiting, %s work, %s overhead", human(all.Total()), Plural(max(len(run.Clusters), 1), "cluster"),
		share(all.Waiting), share(all.Work), share(all.Overhead))
}

func percent(part, whole time.Duration) string {
	return number(100*float64(part)/float64(whole), 0) + " %"
}

// clusterFacts describes each cluster; settingsText has the settings, and here are those that
// differ between clusters.
func clusterFacts(run Run) []fact {
	var facts []fact
	for _, c := range run.Clusters {
		var words []string
		if len(c.Nodes) > 0 { // otherwise its scenarios have no record
			words = append(words, Plural(len(c.Nodes), "node"))
		}
		words = append(words, "balancer "+c.LoadBalancer, "disk "+c.Disk)
		if c.Versions != run.Versions {
			words = append(words, "Kubernetes "+c.Versions.Kubernetes, "etcd "+c.Versions.Etcd)
		}
		for _, symbol := range sortedKeys(c.Settings) {
			if slices.ContainsFunc(run.Clusters, func(o Cluster) bool { return o.Settings[symbol] != c.Settings[symbol] }) {
				words = append(words, symbol+" = "+human(c.Settings[symbol]))
			}
		}
		words = append(words, c.Arguments...)
		if c.Took > 0 {
			words = append(words, "took "+human(c.Took)+", "+human(c.Made)+" of that to make it")
		}
		if c.Problem != "" {
			words = append(words, "problem: "+c.Problem)
		}
		text := strings.Join(words, ", ")
		if len(run.Clusters) > 1 {
			text += "; " + strings.Join(c.Scenarios, ", ")
		}
		facts = append(facts, fact{c.Name, text})
	}
	return facts
}
