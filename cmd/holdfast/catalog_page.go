package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/holdfast-ha/holdfast/clusters"
	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/judge"
	"github.com/holdfast-ha/holdfast/reports"
	"github.com/holdfast-ha/holdfast/scenarios"
)

const catalogIntro = `# The catalogue of requirements

What a highly available Kubernetes control plane owes its users. This page is made by
` + "`holdfast catalog -o md`" + ` from the requirements and the scenario files.

The key words MUST and SHOULD are to be read as in RFC 2119: a cluster that breaks a MUST
is not highly available. INFO is a hazard that users have to know; it is measured and shown,
never failed. An ID is stable: a requirement may be retired, its ID is never used again.

Bounds are formulas over the cluster's own settings: a cluster with other settings has
other limits. The limit of a cluster with default settings stands beside each.
[scenarios.md](scenarios.md#times) explains the symbols.

The invariants (area INV) are settled by every scenario, and the worst verdict counts; a
violated one changes no other verdict. [scenarios.md](scenarios.md#invariants) says what
counts where a scenario says nothing about one of them.

Sources: *apiserver-ha* is the API server HA proposal of Kubernetes, *ha-master* the Automated
HA master deployment, *admin* the guide High Availability Kubernetes Clusters, *count-fix* the
apiserver-count fix proposal, *resilience* the control plane resilience overview, *field* what
has hit users since.
`

// printCatalogPage prints the catalogue for people to read.
func printCatalogPage(w io.Writer, entries []catalogEntry) error {
	settings, err := clusters.Settings(clusters.Default())
	if err != nil {
		return err
	}
	guarantees, always := map[string]string{}, map[string][]string{} // always: judges of every run, by requirement
	for _, d := range judge.Docs() {
		guarantees[d.Name] = d.Guarantee
		always[d.Invariant] = append(always[d.Invariant], d.Name)
	}
	var b strings.Builder
	b.WriteString(catalogIntro)
	area := ""
	for _, e := range entries {
		if e.Area != area {
			area = e.Area
			fmt.Fprintf(&b, "\n## %s: %s\n", area, reports.Areas[area])
		}
		fmt.Fprintf(&b, "\n### %s\n\n**%s**: %s\n\n", e.ID, e.Level, e.Text)
		line := func(name, text string) {
			if text != "" {
				fmt.Fprintf(&b, "- %s: %s\n", name, text)
			}
		}
		line("Why it matters", e.Why)
		line("Fault", e.Fault)
		printSettling(&b, e, guarantees, always[e.ID], settings)
		line("By hand", e.ByHand)
		line("What commonly breaks it", e.Breaks)
		line("Source", e.Source)
	}
	_, err = io.WriteString(w, b.String())
	return err
}

// printSettling prints the scenarios that settle a requirement, and its judges; an invariant is
// settled by the judges of every run.
func printSettling(b *strings.Builder, e catalogEntry, guarantees map[string]string, always []string, settings framework.Settings) {
	switch {
	case e.Invariant():
		b.WriteString("- Settled by every scenario\n")
		for _, name := range always {
			fmt.Fprintf(b, "  - `%s`: %s\n", name, guarantees[name])
		}
		return
	case len(e.Scenarios) == 0:
		b.WriteString("- Settled by: no scenario yet\n")
	}
	for _, s := range scenarios.SettledBy(e.Requirement) {
		fmt.Fprintf(b, "- Settled by [%[1]s](../scenarios/%[1]s.yaml): %s\n", s.Metadata.Name, s.Spec.Summary)
		for _, r := range s.Spec.Requirements {
			if r.ID != e.ID {
				continue
			}
			fmt.Fprintf(b, "  - `%s`: %s", r.Judge, guarantees[r.Judge])
			if bound, err := judge.ParseBound(r.Bound, settings.Symbols()); r.Bound != "" && err == nil {
				fmt.Fprintf(b, " Bound: `%s`, %s by default.", r.Bound, bound.Limit)
			}
			b.WriteString("\n")
		}
	}
}
