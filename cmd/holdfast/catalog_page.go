package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/holdfast-ha/holdfast/clusters"
	"github.com/holdfast-ha/holdfast/framework/judge"
	"github.com/holdfast-ha/holdfast/scenarios"
)

const catalogIntro = `# The catalogue of requirements

What a highly available Kubernetes control plane owes its users. This page is made by
` + "`holdfast catalog -o md`" + ` from the requirements and the scenario files.

The key words MUST and SHOULD are to be read as in RFC 2119: a cluster that breaks a MUST
is not highly available. INFO is a hazard that users have to know; it is measured and shown,
never failed. An ID is stable: a requirement may be retired, its ID is never used again.

Bounds are formulas over the cluster's own settings, so that a cluster with other settings
gets other limits; the limit of a cluster with the default ones stands beside each.
[scenarios.md](scenarios.md#times) explains the symbols. Besides what is named here the
[checks of every run](scenarios.md#requirements) apply to each: where one of them is broken,
nothing passes.

Sources: *apiserver-ha* is the API server HA proposal of Kubernetes, *ha-master* the Automated
HA master deployment, *admin* the guide High Availability Kubernetes Clusters, *count-fix* the
apiserver-count fix proposal, *resilience* the control plane resilience overview, *field* what
has hit users since.
`

// areas are what the areas are about.
var areas = map[string]string{
	"TOP": "the cluster as it stands", "QR": "quorum reads and writes", "WCH": "watches",
	"EP": "the default kubernetes service", "LE": "elected components", "CL": "clients and load balancing",
	"MB": "adding and removing replicas", "UP": "upgrades, one by one", "RC": "self-healing and recovery",
	"SEC": "trust", "WL": "workload smoke", "SOAK": "all at once",
}

// printCatalogPage prints the catalogue for people to read.
func printCatalogPage(w io.Writer, entries []catalogEntry) error {
	settings, err := clusters.Settings(clusters.Default())
	if err != nil {
		return err
	}
	guarantees := map[string]string{}
	for _, d := range judge.Docs() {
		guarantees[d.Name] = d.Guarantee
	}
	var b strings.Builder
	b.WriteString(catalogIntro)
	area := ""
	for _, e := range entries {
		if e.Area != area {
			area = e.Area
			fmt.Fprintf(&b, "\n## %s: %s\n", area, areas[area])
		}
		fmt.Fprintf(&b, "\n### %s\n\n**%s**: %s\n\n", e.ID, e.Level, e.Text)
		line := func(name, text string) {
			if text != "" {
				fmt.Fprintf(&b, "- %s: %s\n", name, text)
			}
		}
		line("Why it matters", e.Why)
		line("Fault", e.Fault)
		for _, name := range e.Scenarios {
			for _, s := range scenarios.All() {
				if s.Metadata.Name != name {
					continue
				}
				fmt.Fprintf(&b, "- Settled by [%s](../scenarios/%s.yaml): %s\n", name, name, s.Spec.Summary)
				for _, r := range s.Spec.Requirements {
					if r.ID != e.ID {
						continue
					}
					fmt.Fprintf(&b, "  - `%s`: %s", r.Judge, guarantees[r.Judge])
					if bound, err := judge.ParseBound(r.Bound, settings.Symbols()); r.Bound != "" && err == nil {
						fmt.Fprintf(&b, " Bound: `%s`, %s by default.", r.Bound, bound.Limit)
					}
					b.WriteString("\n")
				}
			}
		}
		if len(e.Scenarios) == 0 {
			line("Settled by", "no scenario yet")
		}
		line("By hand", e.ByHand)
		line("What commonly breaks it", e.Breaks)
		line("Source", e.Source)
	}
	_, err = io.WriteString(w, b.String())
	return err
}
