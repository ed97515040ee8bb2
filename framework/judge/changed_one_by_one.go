package judge

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-ha/holdfast/framework/record"
)

func changedOneByOne() definition {
	return definition{Doc{
		Name:      "changed-one-by-one",
		Guarantee: "Nodes are upgraded, or their components restarted, one after the other: no change begins before the one before it is complete, after each the node's components answer in the new version, and after each step the version skew policy holds.",
		Source:    "Automated HA master deployment; Kubernetes version skew policy (kubernetes.io/releases/version-skew-policy)",
		Params: map[string]string{
			"changes":  "names of the changes to judge, separated by commas (default: all)",
			"complete": "true: in the end every node has the version of the last change",
		},
	}, judgeChangedOneByOne}
}

// fleet is which version the components of each node have.
type fleet map[string]map[string]string

// upgradedComponents are those that a change of an action restarts.
func upgradedComponents(action string) []string {
	if action == "upgrade-etcd" {
		return []string{"etcd"}
	}
	return []string{"kube-apiserver", "kube-controller-manager", "kube-scheduler"}
}

func judgeChangedOneByOne(m *matter) finding {
	changes, problem := m.changesIn(m.run.Changes, splitList(m.check.Params["changes"]))
	if problem != nil {
		return *problem
	}
	var evidence []string
	var longest time.Duration
	for i, c := range changes {
		if i > 0 && c.Called < changes[i-1].Effect {
			return failed("Nodes must be changed one after the other: %s began %s, and %s was complete only %s.",
				inPlaceWords(c), when(c.Called), inPlaceWords(changes[i-1]), when(changes[i-1].Effect)).rests(c.Called, changes[i-1].Effect)
		}
		longest = max(longest, time.Duration(c.Effect-c.Called))
		evidence = append(evidence, fmt.Sprintf("%s in %s", inPlaceWords(c), short(time.Duration(c.Effect-c.Called))))
	}
	steps, f := m.skewSteps(changes)
	if f != nil {
		return f.shows(evidence...)
	}
	for _, c := range changes {
		if f := m.answersIn(c); f != nil {
			return f.shows(evidence...)
		}
	}
	if f := m.complete(changes[len(changes)-1]); f != nil {
		return f.shows(evidence...)
	}
	return passed("%d changes of nodes were made one after the other, each in %s at most; after each of %d steps the version skew policy held, and every component answered in its version.",
		len(changes), short(longest), steps).counted("%d changes", len(changes)).shows(evidence...)
}

// skewSteps returns how many steps the changes took, and which of them broke the policy.
func (m *matter) skewSteps(changes []record.NodeChange) (n int, broken *finding) {
	now := fleet{}
	for node, versions := range m.run.Meta.Versions {
		now[node] = map[string]string{}
		for component, version := range versions {
			now[node][component] = version
		}
	}
	steps := slices.Clone(m.run.Steps)
	slices.SortStableFunc(steps, func(a, b record.Timed[record.Step]) int { return cmp.Compare(a.V.Done, b.V.Done) })
	judged := map[string]int{}
	for _, t := range steps {
		s := t.V
		if s.Component == "" || now[s.Node] == nil {
			continue
		}
		now[s.Node][s.Component] = s.Version
		i := slices.IndexFunc(changes, func(c record.NodeChange) bool {
			return c.Node.Name == s.Node && s.Began >= c.Called && s.Done <= c.Effect
		})
		if i < 0 {
			continue
		}
		n++
		judged[inPlaceWords(changes[i])]++
		if why := now.skew(); why != "" {
			f := failed("The version skew policy must hold at every step: after %q on %s, %s.", s.Name, s.Node, why).rests(s.Began, s.Done)
			return n, &f
		}
	}
	for _, c := range changes {
		if judged[inPlaceWords(c)] == 0 {
			f := inconclusive("the record has no restart of a component by %s", inPlaceWords(c))
			return n, &f
		}
	}
	return n, nil
}

// skew says how the versions break the policy; empty where they do not.
func (f fleet) skew() string {
	var servers, members []released
	for _, node := range slices.Sorted(maps.Keys(f)) {
		versions := f[node]
		for _, component := range slices.Sorted(maps.Keys(versions)) {
			r := released{node: node, component: component, version: versions[component]}
			var ok bool
			if r.minor, ok = parseMinor(r.version); !ok {
				continue
			}
			switch component {
			case "kube-apiserver":
				servers = append(servers, r)
			case "etcd":
				members = append(members, r)
			default:
				own, ok := parseMinor(versions["kube-apiserver"])
				if n, same := r.newer(own); ok && (!same || n > 0 || n < -1) {
					return fmt.Sprintf("%s is beside kube-apiserver %s", r, versions["kube-apiserver"])
				}
			}
		}
	}
	for _, all := range [][]released{servers, members} {
		if len(all) == 0 {
			continue
		}
		oldest, newest := extremes(all)
		if n, ok := newest.newer(oldest.minor); !ok || n > 1 {
			return fmt.Sprintf("there are %s and %s", oldest, newest)
		}
	}
	return ""
}

// answersIn checks what the components of a changed node said of themselves before they
// were changed again.
func (m *matter) answersIn(c record.NodeChange) *finding {
	if c.To == "" {
		return nil
	}
	until := endless
	for _, next := range m.run.Changes {
		if v := next.V; v.Node.Name == c.Node.Name && v.Action == c.Action && v.Called >= c.Effect {
			until = min(until, v.Called)
		}
	}
	answered := map[string]string{}
	for _, o := range m.run.Ops {
		if op := o.V; op.Purpose == "version" && op.Entrance == c.Node.Name && op.Outcome == record.OK && op.Call >= c.Effect && op.Call < until {
			answered[op.Key] = op.Value
		}
	}
	for _, e := range m.run.Etcd {
		if s := e.V; s.OK && s.Node == c.Node.Name && e.At >= c.Effect && e.At < until {
			answered["etcd"] = "v" + strings.TrimPrefix(s.Version, "v")
		}
	}
	for _, component := range upgradedComponents(c.Action) {
		if !slices.Contains(c.Node.Components, component) {
			continue
		}
		switch is := answered[component]; is {
		case c.To:
		case "":
			f := inconclusive("%s on %s did not answer which version it is of between the %s and the next one", component, c.Node.Name, inPlaceWords(c))
			return &f
		default:
			f := failed("After %s every component of the node must be of the version: %s answered %s.", inPlaceWords(c), component, is)
			return &f
		}
	}
	return nil
}

// complete checks that every node has the version of the last change, where that is asked
// for.
func (m *matter) complete(last record.NodeChange) *finding {
	if m.param("complete", "false") != "true" {
		return nil
	}
	at := map[string]string{}
	for _, n := range m.run.Meta.Nodes {
		at[n.Name] = m.run.Meta.Versions[n.Name][upgradedComponents(last.Action)[0]]
	}
	for _, c := range m.run.Changes {
		if c.V.Action == last.Action && c.V.Phase == record.NodeChanged {
			at[c.V.Node.Name] = c.V.To
		}
	}
	for _, n := range m.run.Meta.Nodes {
		if at[n.Name] != last.To {
			f := failed("In the end every node must be of %s: %s is of %s.", last.To, n.Name, at[n.Name])
			return &f
		}
	}
	return nil
}
