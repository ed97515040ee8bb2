package judges

import (
	"fmt"
	"slices"
	"strings"

	"github.com/holdfast-ha/holdfast/framework/judge/internal/facts"
	"github.com/holdfast-ha/holdfast/framework/judge/internal/text"
	"github.com/holdfast-ha/holdfast/framework/judge/verdict"
	"github.com/holdfast-ha/holdfast/framework/record"
)

func objectsBetweenVersions() Definition {
	return Definition{verdict.Doc{
		Name:      "objects-between-versions",
		Guarantee: "While API servers of two versions serve, an object that was written through one of them is read as it was written through the other, in both directions, and keeps its fields when the other changes it.",
		Source:    "Automated HA master deployment",
		Params: map[string]string{
			"least": "how many reads are required in each direction (default 10)",
		},
	}, judgeObjectsBetweenVersions}
}

func judgeObjectsBetweenVersions(m *facts.Matter) Finding {
	least, problem := countParam(m, "least", 10, 1)
	if problem != nil {
		return *problem
	}
	version := map[string]string{} // of API servers
	wrote := map[string]string{}   // the last version that wrote an object
	reads := map[string]int{}      // by direction
	kinds := map[string]bool{}
	refused := 0
	ops := slices.Clone(m.Run.Ops)
	slices.SortStableFunc(ops, func(a, b record.Timed[record.Op]) int { return int(a.V.Call - b.V.Call) })
	for _, o := range ops {
		op := o.V
		if op.Purpose == "version" && op.Key == "kube-apiserver" && op.Outcome == record.OK {
			version[op.Entrance] = op.Value
		}
		if op.Purpose != "mixed-object" {
			continue
		}
		is, before := version[op.Entrance], wrote[op.Key]
		switch {
		case op.Outcome != record.OK:
			refused++
			continue
		case op.Type != record.OpGet:
			wrote[op.Key] = is
		case before == "":
			continue
		}
		bad := op.Value
		if op.Type == record.OpGet && !op.Found {
			bad = "it was not found"
		}
		if bad != "" {
			return Failed("An object must be read as it was written, whatever the versions of the API servers: %s, written last by %s, through %s (%s): %s.",
				op.Key, text.OrUnknown(before), op.Entrance, text.OrUnknown(is), bad).Shows(text.Describe(op))
		}
		if op.Type == record.OpGet && is != "" && is != before {
			reads[before+" to "+is]++
			kind, _, _ := strings.Cut(op.Key, "/")
			kinds[kind] = true
		}
	}
	var directions []string
	total := 0
	for direction, n := range reads {
		from, to, _ := strings.Cut(direction, " to ")
		if n < least || reads[to+" to "+from] < least {
			return Inconclusive("%d reads went from %s and %d the other way, and %d each are required", n, direction, reads[to+" to "+from], least)
		}
		total += n
		directions = append(directions, fmt.Sprintf("%d from %s", n, direction))
	}
	if len(directions) == 0 {
		return Inconclusive("no object was written through an API server of one version and read through one of another (%d requests were not answered)", refused)
	}
	slices.Sort(directions)
	return Passed("Objects of %d kinds were read as they were written by an API server of the other version: %s.", len(kinds), text.And(directions)).
		counted("%d reads", total)
}
