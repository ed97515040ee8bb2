package judge

import (
	"fmt"
	"strings"
	"testing"

	"github.com/holdfast-ha/holdfast/framework/record"
)

func TestObjectsBetweenVersions(t *testing.T) {
	// mixed has API servers of two versions pass objects to each other.
	mixed := func(n int, change func(o *record.Op, i int)) func() *story {
		return func() *story {
			s := newStory().says("node-1", "kube-apiserver", release37, 1).says("node-2", "kube-apiserver", release36, 1)
			at := 2.0
			ask := func(kind record.OpType, through, key string, i int) {
				o := during(at, at+0.01)
				at += 0.02
				o.Client, o.Type, o.Entrance, o.Key, o.Found, o.Purpose = "mixed", kind, through, key, true, "mixed-object"
				if change != nil {
					change(&o, i)
				}
				s.op(o)
			}
			for i := range n {
				for _, pair := range [][2]string{{"node-1", "node-2"}, {"node-2", "node-1"}} {
					key := fmt.Sprintf("Deployment/d%d-%s", i, pair[0])
					ask(record.OpCreate, pair[0], key, i)
					ask(record.OpGet, pair[1], key, i)
					ask(record.OpPatch, pair[1], key, i)
					ask(record.OpGet, pair[0], key, i)
				}
			}
			return s
		}
	}
	rule(t, record.Check{Requirement: "HA-UP-005", Judge: "objects-between-versions"}, []ruling{
		{name: "the objects from before were not read", want: Inconclusive, says: "action lasting-reads failed: creating a CRD: status 429 (at 50.000s)", story: func() *story {
			s := mixed(10, nil)().at(50)
			return add(s, &s.run.Phases, record.Phase{Name: "action lasting-reads failed: creating a CRD: status 429"})
		}},
	})
	// failing is six rounds of Deployments, and more of Secrets, of which those requests of a type
	// through node-2 fail that have a problem.
	failing := func(typ record.OpType, rounds int, problem func(i int) string) func() *story {
		return mixed(6+rounds, func(o *record.Op, i int) {
			if i < 6 {
				return
			}
			o.Key = strings.Replace(o.Key, "Deployment/", "Secret/", 1)
			if o.Type == typ && o.Entrance == "node-2" && problem(i) != "" {
				o.Outcome, o.Error, o.Found = record.Unknown, problem(i), false
			}
		})
	}
	secrets := func(rounds int, problem func(i int) string) func() *story {
		return failing(record.OpGet, rounds, problem)
	}
	changes := func(rounds int, problem func(i int) string) func() *story {
		return failing(record.OpPatch, rounds, problem)
	}
	always := func(problem string) func(int) string { return func(int) string { return problem } }
	const undecoded = `status 500 (): no kind "Secret" is registered for version "v2"`
	const invalid = `status 422 (Invalid): Secret "d8-node-1" is invalid: spec.new: Forbidden`
	// unlisted has rounds of Secrets, and a list of Secrets fail after them.
	unlisted := func(rounds int) func() *story {
		return func() *story {
			s := secrets(rounds, always(""))()
			o := during(40, 40.1)
			o.Client, o.Type, o.Entrance, o.Key, o.Purpose, o.Outcome, o.Error = "mixed", record.OpGet, "node-2", "Secret/", "mixed-object", record.Unknown, undecoded
			return s.op(o)
		}
	}
	rule(t, record.Check{Requirement: "HA-UP-005", Judge: "objects-between-versions"}, []ruling{
		{name: "two kinds", want: Pass, says: "Objects of 2 kinds", took: "36 reads", story: secrets(3, always(""))},
		{name: "one version cannot read a kind", want: Fail, says: "through v1.36.3, a Secret that v1.37.1 wrote was read by none of 6 requests (" + undecoded + ")", story: secrets(3, always(undecoded))},
		{name: "one version cannot read a kind, few tries", want: Inconclusive, says: "no Secret that v1.37.1 wrote was read through v1.36.3 (status 500", story: secrets(2, always(undecoded))},
		{name: "one version reads a kind once", want: Pass, took: "32 reads", story: secrets(3, func(i int) string {
			if i == 8 {
				return ""
			}
			return undecoded
		})},
		{name: "one version reads a kind at the second try", want: Pass, took: "34 reads", story: secrets(3, func(i int) string {
			if i == 6 {
				return undecoded
			}
			return ""
		})},
		{name: "no answer about a kind in time", want: Inconclusive, says: "no Secret that v1.37.1 wrote was read through v1.36.3 (no answer in time", story: secrets(3, always("no answer in time: context deadline exceeded"))},
		{name: "one try has no answer in time", want: Inconclusive, says: "no Secret that v1.37.1 wrote was read through v1.36.3", story: secrets(3, func(i int) string {
			if i == 7 {
				return "no answer in time: context deadline exceeded"
			}
			return undecoded
		})},
		{name: "etcd has no leader while a kind is read", want: Inconclusive, says: "no Secret that v1.37.1 wrote", story: secrets(3, always("status 500 (): etcdserver: leader changed"))},
		{name: "etcd does not answer while a kind is read", want: Inconclusive, says: "no Secret that v1.37.1 wrote", story: secrets(3, always("status 500 (InternalError): Internal error occurred: rpc error: code = Unavailable"))},
		{name: "one version finds a kind invalid when it is changed", want: Fail, says: "through v1.36.3, a Secret that v1.37.1 wrote was changed by none of 5 requests (" + invalid + ")", story: changes(5, always(invalid))},
		{name: "one version fails to change a kind", want: Fail, says: "through v1.36.3, a Secret that v1.37.1 wrote was changed by none of 5 requests", story: changes(5, always(undecoded))},
		{name: "one version does not change a kind, few tries", want: Inconclusive, says: "no Secret that v1.37.1 wrote was changed through v1.36.3 (" + invalid + ")", story: changes(4, always(invalid))},
		{name: "one version changes a kind once", want: Pass, took: "40 reads", says: "(4 requests failed)", story: changes(5, func(i int) string {
			if i == 8 {
				return ""
			}
			return invalid
		})},
		{name: "one try to change a kind is a conflict", want: Inconclusive, says: "no Secret that v1.37.1 wrote was changed through v1.36.3", story: changes(5, func(i int) string {
			if i == 8 {
				return "status 409 (Conflict): the object has been modified"
			}
			return invalid
		})},
		{name: "no answer about a change in time", want: Inconclusive, says: "no Secret that v1.37.1 wrote was changed", story: changes(5, always("no answer in time: context deadline exceeded"))},
		{name: "etcd has no leader while a kind is changed", want: Inconclusive, says: "no Secret that v1.37.1 wrote was changed", story: changes(5, always("status 500 (): etcdserver: leader changed"))},
		{name: "a kind is read across only", want: Pass, took: "34 reads", story: func() *story {
			return changes(5, always(""))().change(func(r *record.Run) {
				keep(r, func(o record.Op) bool { return o.Type != record.OpPatch || !strings.HasPrefix(o.Key, "Secret/") })
			})
		}},
		{name: "a kind cannot be listed", want: Inconclusive, says: "no Secret was read through an API server of a version other than that of the one that wrote it, since the API server on node-2 did not list that kind (status 500", story: unlisted(0)},
		{name: "a kind cannot be listed once", want: Pass, took: "36 reads", story: unlisted(3)},
	})
	rule(t, record.Check{Requirement: "HA-UP-005", Judge: "objects-between-versions"}, []ruling{
		{name: "both ways", want: Pass, took: "24 reads", says: "12 from v1.36.3 to v1.37.1", story: mixed(6, nil)},
		{name: "a field is lost", want: Fail, says: "spec.replicas is 1, not 0", story: mixed(6, func(o *record.Op, i int) {
			if i == 4 && o.Type == record.OpGet && o.Entrance == "node-2" {
				o.Value = "spec.replicas is 1, not 0"
			}
		})},
		{name: "a field is lost by a change", want: Fail, says: "spec.replicas is null", story: mixed(6, func(o *record.Op, i int) {
			if i == 4 && o.Type == record.OpPatch {
				o.Value = "spec.replicas is null, not 0"
			}
		})},
		{name: "an object is not found", want: Fail, says: "it was not found", story: mixed(6, func(o *record.Op, i int) {
			if i == 2 && o.Type == record.OpGet {
				o.Found = false
			}
		})},
		{name: "one version knows no such kind", want: Pass, story: mixed(7, func(o *record.Op, i int) {
			if i == 6 {
				o.Outcome, o.Error, o.Found = record.Refused, "the server could not find the requested resource", false
			}
		})},
		{name: "too few", want: Inconclusive, says: "10 each are required", story: mixed(3, nil)},
		{name: "one version only", want: Inconclusive, says: "of one version and read through one of another", story: func() *story {
			return mixed(6, nil)().change(func(r *record.Run) { r.Ops[1].V.Value = release37 })
		}},
	})
}
