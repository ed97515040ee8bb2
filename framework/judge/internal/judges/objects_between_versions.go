package judges

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/holdfast-ha/holdfast/framework/judge/internal/facts"
	"github.com/holdfast-ha/holdfast/framework/judge/internal/text"
	"github.com/holdfast-ha/holdfast/framework/record"
)

var objectsBetweenVersions = Definition{Doc{
	Name:      "objects-between-versions",
	Guarantee: "While API servers of two versions serve, an object that was written through one of them is read as it was written through the other, in both directions, and keeps its fields when the other changes it. An object that an older version wrote before is read as it was written, too.",
	Source:    "Automated HA master deployment",
	Params: map[string]string{
		"least": "how many reads are required in each direction between versions that served at the same time (default 10)",
	},
}, given(count("least", 10, 1), judgeObjectsBetweenVersions)}

func judgeObjectsBetweenVersions(m *facts.Case, least int) Finding {
	version := map[string]string{}   // of API servers
	together := map[[2]string]bool{} // versions that served at the same time, in both orders
	wrote := map[string]string{}     // the last version that wrote an object
	reads := map[[2]string]int{}     // by direction: from one version to another
	kinds := map[string]bool{}
	made := map[passage]bool{}
	vain := map[passage][]record.Op{} // requests that failed
	left := map[string]record.Op{}    // kinds that were left out, since a list of them failed
	refused := 0
	ops := slices.Clone(m.Run.Ops)
	slices.SortStableFunc(ops, func(a, b record.Timed[record.Op]) int { return int(a.V.Call - b.V.Call) })
	for _, op := range record.Each(ops) {
		if op.Purpose == "version" && op.Key == "kube-apiserver" && op.Outcome == record.OK {
			version[op.Entrance] = op.Value
			for _, other := range version {
				if other != op.Value {
					together[[2]string{op.Value, other}], together[[2]string{other, op.Value}] = true, true
				}
			}
		}
		if op.Purpose != "mixed-object" {
			continue
		}
		is, before := version[op.Entrance], wrote[op.Key]
		kind, name, _ := strings.Cut(op.Key, "/")
		p, between := passage{before, is, kind, op.Type == record.OpGet}, before != "" && is != "" && is != before
		switch {
		case op.Outcome != record.OK:
			if refused++; name == "" {
				left[kind] = op
			}
			if between {
				vain[p] = append(vain[p], op)
			}
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
		made[p] = made[p] || between
		if between && p.read {
			reads[[2]string{before, is}]++
			kinds[kind] = true
		}
	}
	if len(reads) == 0 {
		return Inconclusive("no object was written through an API server of one version and read through one of another (%d requests were not answered)", refused)
	}
	if len(together) == 0 {
		return Inconclusive("no API servers of two versions were seen to serve at the same time")
	}
	// Versions that never served at the same time need no way back.
	for _, d := range slices.SortedFunc(maps.Keys(together), byVersions) {
		if back := [2]string{d[1], d[0]}; reads[d] < least || reads[back] < least {
			return Inconclusive("%d reads went from %s to %s and %d the other way, and %d each are required", reads[d], d[0], d[1], reads[back], least)
		}
	}
	var directions []string
	total := 0
	for _, d := range slices.SortedFunc(maps.Keys(reads), byVersions) {
		if reads[d] < least {
			return Inconclusive("%d reads went from %s to %s, and %d are required", reads[d], d[0], d[1], least)
		}
		total += reads[d]
		directions = append(directions, fmt.Sprintf("%d from %s to %s", reads[d], d[0], d[1]))
	}
	maps.DeleteFunc(vain, func(p passage, _ []record.Op) bool { return made[p] })
	if f := neverMade(vain); f != nil {
		return *f
	}
	for _, kind := range slices.Sorted(maps.Keys(left)) {
		if op := left[kind]; !kinds[kind] {
			return Inconclusive("no %s was read through an API server of a version other than that of the one that wrote it, since the API server on %s did not list that kind (%s)", kind, op.Entrance, op.Error).Shows(text.Describe(op))
		}
	}
	for _, p := range m.Run.Phases {
		// Without it, objects from before a later change may not have been read.
		if slices.ContainsFunc(passing, func(action string) bool { return strings.HasPrefix(p.V.Name, "action "+action+" failed") }) {
			return Inconclusive("not all objects were passed between versions: %s (%s)", p.V.Name, text.At(p.At))
		}
	}
	others := ""
	if refused > 0 {
		others = fmt.Sprintf(" (%s failed)", text.Plural(refused, "request"))
	}
	return Passed("Objects of %d kinds were read as they were written by an API server of another version: %s%s.", len(kinds), text.And(directions), others).
		number(total, "read")
}

// passing are the actions that create objects, and read them again after later changes.
var passing = []string{"lasting-objects", "lasting-reads"}

func byVersions(a, b [2]string) int { return slices.Compare(a[:], b[:]) }

// passage is from the version that wrote objects of a kind to the one that they are read or changed
// through.
type passage struct {
	from, to, kind string
	read           bool
}

// enoughTries is how many requests for a kind that an API server does not accept show that it
// cannot. The harness tries each that often.
const enoughTries = 5

// neverMade returns what it means that every read or every change of a kind failed, which others
// did not: an API server that answers only with a failure of its own, or that an object is not
// valid, cannot read or change what the other one wrote.
func neverMade(vain map[passage][]record.Op) (open *Finding) {
	order := func(a, b passage) int {
		return cmp.Or(slices.Compare([]string{a.from, a.to, a.kind}, []string{b.from, b.to, b.kind}), strings.Compare(a.did(), b.did()))
	}
	for _, p := range slices.SortedFunc(maps.Keys(vain), order) {
		ops := vain[p]
		last := ops[len(ops)-1]
		other := slices.ContainsFunc(ops, func(op record.Op) bool { return !ownFailure(op.Error) })
		if len(ops) >= enoughTries && !other {
			return Failed("An object must be read as it was written, and keep its fields when it is changed, whatever the versions of the API servers: through %s, a %s that %s wrote was %s by none of %d requests (%s).",
				p.to, p.kind, p.from, p.did(), len(ops), last.Error).Shows(text.Describe(last)).problem()
		}
		if open == nil {
			open = Inconclusive("no %s that %s wrote was %s through %s (%s)", p.kind, p.from, p.did(), p.to, last.Error).Shows(text.Describe(last)).problem()
		}
	}
	return open
}

func (p passage) did() string {
	if p.read {
		return "read"
	}
	return "changed"
}

// ownFailure reports whether an API server answered that it failed, or that an object is not valid,
// and not because of a conflict, etcd, a connection or a time limit.
func ownFailure(problem string) bool {
	return strings.HasPrefix(problem, "status 422 (") || strings.HasPrefix(problem, "status 500 (") &&
		!slices.ContainsFunc([]string{"etcdserver:", "rpc error", "context deadline", "context canceled", "connection"}, func(cause string) bool { return strings.Contains(problem, cause) })
}
