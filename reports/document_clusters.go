package reports

import "time"

type spentDoc struct {
	TotalNS    int64  `json:"total_ns"`
	Total      string `json:"total"`
	WaitingNS  int64  `json:"waiting_ns"`
	Waiting    string `json:"waiting"`
	WorkNS     int64  `json:"work_ns"`
	Work       string `json:"work"`
	OverheadNS int64  `json:"overhead_ns"`
	Overhead   string `json:"overhead"`
}

type timeDoc struct {
	spentDoc
	Scenarios []scenarioTimeDoc `json:"scenarios"`
}

type scenarioTimeDoc struct {
	Scenario string `json:"scenario"`
	Cluster  string `json:"cluster,omitempty"`
	spentDoc
}

type clusterDoc struct {
	Name         string           `json:"name"`
	Scenarios    []string         `json:"scenarios"`
	Nodes        []Node           `json:"nodes"`
	Versions     Versions         `json:"versions"`
	LoadBalancer string           `json:"load_balancer"`
	Disk         string           `json:"disk"`
	Arguments    []string         `json:"arguments,omitempty"`
	SettingsNS   map[string]int64 `json:"settings_ns"`
	TookNS       int64            `json:"took_ns"`
	Took         string           `json:"took"`
	MadeNS       int64            `json:"made_ns"`
	Made         string           `json:"made"`
	Problem      string           `json:"problem,omitempty"`
}

func encodeSpent(s Spent) spentDoc {
	return spentDoc{int64(s.Total()), human(s.Total()), int64(s.Waiting), human(s.Waiting),
		int64(s.Work), human(s.Work), int64(s.Overhead), human(s.Overhead)}
}

func encodeTimes(run Run) *timeDoc {
	if len(run.Times) == 0 {
		return nil
	}
	doc := &timeDoc{spentDoc: encodeSpent(run.Spent())}
	for _, t := range run.Times {
		doc.Scenarios = append(doc.Scenarios, scenarioTimeDoc{t.Scenario, t.Cluster, encodeSpent(t.Spent)})
	}
	return doc
}

// decodeTimes leaves out the sum, which is computed from the rest.
func decodeTimes(doc *timeDoc) []ScenarioTime {
	if doc == nil {
		return nil
	}
	var times []ScenarioTime
	for _, t := range doc.Scenarios {
		times = append(times, ScenarioTime{t.Scenario, t.Cluster,
			Spent{time.Duration(t.WaitingNS), time.Duration(t.WorkNS), time.Duration(t.OverheadNS)}})
	}
	return times
}

func encodeClusters(all []Cluster) []clusterDoc {
	var docs []clusterDoc
	for _, c := range all {
		doc := clusterDoc{Name: c.Name, Scenarios: notNil(c.Scenarios), Nodes: notNil(c.Nodes), Versions: c.Versions,
			LoadBalancer: c.LoadBalancer, Disk: c.Disk, Arguments: c.Arguments, SettingsNS: map[string]int64{},
			TookNS: int64(c.Took), Took: human(c.Took), MadeNS: int64(c.Made), Made: human(c.Made), Problem: c.Problem}
		for symbol, d := range c.Settings {
			doc.SettingsNS[symbol] = int64(d)
		}
		docs = append(docs, doc)
	}
	return docs
}

func decodeClusters(docs []clusterDoc) []Cluster {
	var all []Cluster
	for _, doc := range docs {
		c := Cluster{Name: doc.Name, Scenarios: doc.Scenarios, Nodes: doc.Nodes, Versions: doc.Versions,
			LoadBalancer: doc.LoadBalancer, Disk: doc.Disk, Arguments: doc.Arguments, Settings: map[string]time.Duration{},
			Took: time.Duration(doc.TookNS), Made: time.Duration(doc.MadeNS), Problem: doc.Problem}
		for symbol, ns := range doc.SettingsNS {
			c.Settings[symbol] = time.Duration(ns)
		}
		all = append(all, c)
	}
	return all
}
