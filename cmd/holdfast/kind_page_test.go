package main

import (
	"os"
	"strings"
	"testing"

	"github.com/holdfast-ha/holdfast/clusters"
	"github.com/holdfast-ha/holdfast/clusters/kind"
	"github.com/holdfast-ha/holdfast/scenarios"
	"github.com/holdfast-ha/holdfast/suites/run"
)

// TestKindPage checks that the page about kind has a row for each scenario that kind cannot
// provide a cluster for, with the requirements that nothing else settles there, and that no other
// scenario asks for arguments that kind refuses.
func TestKindPage(t *testing.T) {
	page, err := os.ReadFile("../../docs/kind.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(page), "## What does not apply")
	table, _, _ = strings.Cut(table, "\n## ")
	all := run.Here(kind.Provider{}, clusters.Default(), scenarios.All())
	settled := map[string]bool{}
	for _, s := range all {
		for _, r := range s.Spec.Requirements {
			settled[r.ID] = settled[r.ID] || s.Missing == ""
		}
	}
	for _, s := range all {
		if s.Missing == "" {
			continue
		}
		if strings.Contains(s.Missing, "argument") && !strings.Contains(s.Missing, "arguments of running components") {
			t.Errorf("%s: %s", s.Metadata.Name, s.Missing)
		}
		row := ""
		for line := range strings.Lines(table) {
			if strings.HasPrefix(line, "| `") && strings.Contains(strings.SplitN(line, "|", 3)[1], "`"+s.Metadata.Name+"`") {
				row = line
			}
		}
		if row == "" {
			t.Errorf("docs/kind.md has no row for %s: %s", s.Metadata.Name, s.Missing)
		}
		for _, r := range s.Spec.Requirements {
			if !settled[r.ID] && !strings.Contains(row, r.ID) {
				t.Errorf("docs/kind.md does not say that %s does not apply without %s", r.ID, s.Metadata.Name)
			}
		}
	}
}
