package judge

import (
	"slices"
	"strings"
	"time"

	"github.com/holdfast-ha/holdfast/framework/record"
)

// Doc describes a judge.
type Doc struct {
	// Name is the judge's name in scenario files.
	Name string
	// Guarantee is what it holds a cluster to, in one sentence.
	Guarantee string
	// Source is where the guarantee comes from.
	Source string
	// Invariant is the requirement that a judge of every run settles in every scenario,
	// whether a check names the judge or not; empty for other judges.
	Invariant string
	// NeedsFault and NeedsBound tell what a check must name.
	NeedsFault, NeedsBound bool
	// BeforeFaults marks a judge of what comes before any fault. It also judges a cluster
	// on which the application of the traffic did not come up, of which no other judge can
	// say anything.
	BeforeFaults bool
	// Lasting says that a violation stays one whatever comes later, so that it is one also
	// where the run was interrupted.
	Lasting bool
	// Params describes each parameter by name, with its default.
	Params map[string]string
}

// definition is a judge: its description and its function.
type definition struct {
	Doc
	judge func(*matter) finding
}

// definitions returns the judges that speak where a check names them.
func definitions() []definition {
	return []definition{
		etcdMembership(),
		controlPlaneComplete(),
		noHiddenDependency(),
		faultDomains(),
		versionSkew(),
		changedOneByOne(),
		availableThroughChanges(),
		membersFollow(),
		unsafeMemberRefused(),
		ownAPIServer(),
		objectsBetweenVersions(), addonsConverge(),
		timeSettings(),
		certificates(),
		tokensAccepted(),
		certificatesLast(),
		etcdAuthenticates(),
		unknownReadsNothing(),
		crossRead(),
		isolatedMember(),
		staleSerializableRead(),
		writeGap(),
		peersReconnect(),
		requestsAnswered(),
		quorumLoss(),
		endpointsMatch(),
		endpointRemoved(),
		endpointReturned(),
		endpointsStable(),
		endpointsNeverEmpty(),
		endpointsConverge(),
		listWatch(),
		watchesReturn(),
		restarted(), componentsGoOn(), rejoins(), snapshotVerifies(), quotaReached(), damageContained(), restoredFromSnapshot(),
		singleHolder(),
		takeover(),
		activeAgain(),
		stopsActing(),
		supervised(),
		availability(),
		clientsRecover(),
		noFailedRequest(),
		backendReturned(),
		drainedByReadiness(), returnsReady(), spreadsAgain(), oneAddress(),
		sessionAffinity(),
		throughput(),
		endpointsFollow(),
		learnsAddresses(),
		failsOver(),
		applicationFollows(), applicationConverges(), podsUntouched(), nodesReady(), nodeNotReady(), workGoesOn(), podsBound(), holderWorks(),
		handover(),
		noStaleRead(),
		commitLatency(),
		noElection(),
		writesSucceed(),
		timeTravel(),
	}
}

// runWide returns the judges that apply to every record; a check may name them as
// well. Each settles the invariant that its Doc names; several may share one.
//
// One says NotApplicable only where nothing that it judges was attempted, such as watches
// in a scenario without any, or where the cluster gives no access to it. What was
// attempted and cannot be judged is Inconclusive: a violation may hide in it, which no
// other scenario's Pass makes up for.
func runWide() []definition {
	return []definition{
		linearizable(), etcdLinearizable(), noLostWrite(), oneWinner(), readYourWrites(), monotonicReads(), revisionOrder(),
		listSemantics(), listSnapshot(),
		watchOrdered(), watchUnique(), watchReliable(), watchResumable(), watchBookmark(), watchFilter(), watchCompacted(), watchAlive(),
		watchFlags(), watchContent(), watchAtomic(), watchPrevious(),
		steadyState(), restarts(), oneActor(), oneLeaderPerTerm(), etcdHashes(), etcdAlarms(),
	}
}

// nameable returns the judges that a check may name.
func nameable() []definition { return slices.Concat(definitions(), runWide()) }

// Names returns the names of the judges that a check may name, sorted: the built-in ones
// and the caller's own.
func Names(own ...Judge) []string {
	var names []string
	for _, d := range nameable() {
		names = append(names, d.Name)
	}
	for _, j := range own {
		names = append(names, j.Name)
	}
	slices.Sort(names)
	return names
}

// Docs describes every judge: those that a check may name, then those that
// apply to every record.
func Docs() []Doc {
	var docs []Doc
	for _, d := range append(nameable(), harnessHealth()) {
		docs = append(docs, d.Doc)
	}
	return docs
}

// matter is what a judge decides on.
type matter struct {
	run   *record.Run
	check record.Check
	// bound is nil where the check names none.
	bound *Bound
	// fault is the injection that the check is about, nil where it names none.
	// It is proven, and so is its healing.
	fault *injection
	// faults are all injections of the record by ID.
	faults map[string]*injection
	// shared is what the checks of every run share; nil where a test judges one alone.
	shared func() *collections
}

// finding is what a judge found, before the rules that hold for all are applied.
type finding struct {
	verdict  Verdict
	sentence string
	measured string
	value    *time.Duration
	evidence []string
	exhibit  *Exhibit
	// bound replaces the check's bound in the result where set.
	bound *Bound
	// timed marks a failure that rests on a measured time, between from and
	// to: a starved harness may have caused it.
	timed    bool
	from, to record.Nanos
}

// param returns a parameter of the check, or its default.
func (m *matter) param(name, def string) string {
	if v, ok := m.check.Params[name]; ok && v != "" {
		return v
	}
	return def
}

// quiet is the time in which the cluster is meant to be as it stands: from the
// baseline check to the first fault or change of nodes, or to the end of the record.
// Faults of the components that are named leave alone what is judged.
func (m *matter) quiet(harmless ...string) (from, to record.Nanos) {
	for _, s := range m.run.Steadies {
		if s.V.Phase == "before" && s.V.OK {
			from = s.At
			break
		}
	}
	to = min(m.run.EndAt, nextChange(m.run, 0))
	for _, inj := range m.faults {
		if inj.injected != nil && !slices.Contains(harmless, inj.injected.Component) {
			to = min(to, inj.injected.Called)
		}
	}
	return from, to
}

// apiServers returns the names of the entrances that are API servers from the start
// to the end, apart from those on the given nodes.
func (m *matter) apiServers(except ...string) []string {
	var names []string
	for _, e := range m.run.Meta.Entrances {
		if m.isNode(e) && m.stays(e) && !slices.Contains(except, e) {
			names = append(names, e)
		}
	}
	return names
}

func (m *matter) isNode(name string) bool {
	return slices.ContainsFunc(m.run.Meta.Nodes, func(n record.Node) bool { return n.Name == name })
}

// wasNode tells whether there ever was such a control-plane node.
func (m *matter) wasNode(name string) bool {
	return slices.ContainsFunc(nodeLives(m.run), func(n nodeLife) bool { return n.Name == name })
}

// nodesWith returns the nodes that are meant to run a component.
func (m *matter) nodesWith(component string) []record.Node {
	var nodes []record.Node
	for _, n := range m.run.Meta.Nodes {
		if slices.Contains(n.Components, component) {
			nodes = append(nodes, n)
		}
	}
	return nodes
}

// address returns the address of a node, empty if there never was such a node.
func (m *matter) address(node string) string {
	for _, n := range nodeLives(m.run) {
		if n.Name == node {
			return n.Address
		}
	}
	return ""
}

// injection is the life of one fault.
type injection struct {
	id string
	// injected and healed are nil where the record has no such step; a proven
	// step is preferred to one that is not.
	injected, healed *record.Fault
	failed           *record.Fault
}

// effect is when the fault was seen to act.
func (i *injection) effect() record.Nanos { return max(i.injected.Effect, i.injected.Called) }

// healEffect is when the fault was seen to be gone.
func (i *injection) healEffect() record.Nanos { return max(i.healed.Effect, i.healed.Called) }

func (i *injection) node() string { return i.injected.Node }

// nodes returns all nodes that the fault hits, those of a zone too.
func (i *injection) nodes() []string {
	return slices.DeleteFunc(append([]string{i.injected.Node}, i.injected.Nodes...), func(n string) bool { return n == "" })
}

// what names the fault for people: "kill of etcd on node-2".
func (i *injection) what() string {
	f := i.injected
	name := f.Name
	if strings.HasPrefix(name, "isolate") { // isolate-etcd as well: the component follows
		name = "isolation"
	}
	switch {
	case f.Component != "" && f.Node != "":
		return name + " of " + f.Component + " on " + f.Node
	case f.Component != "":
		return name + " of " + f.Component
	case f.Node != "":
		return name + " of " + f.Node
	}
	return name + " of " + f.Target
}

// nextInjection returns when the first fault is injected after a time.
func (m *matter) nextInjection(after record.Nanos) record.Nanos {
	next := endless
	for _, inj := range m.faults {
		if inj.injected != nil && inj.injected.Called > after {
			next = min(next, inj.injected.Called)
		}
	}
	return next
}

// untilNext returns when the next fault or change of nodes is called for after a time, or
// the end of the record.
func (m *matter) untilNext(after record.Nanos) record.Nanos {
	return min(m.run.EndAt, nextChange(m.run, after), m.nextInjection(after))
}

func injections(run *record.Run) map[string]*injection {
	all := map[string]*injection{}
	better := func(old, new *record.Fault) bool { return old == nil || (!old.Proven && new.Proven) }
	for i := range run.Faults {
		f := &run.Faults[i].V
		inj := all[f.ID]
		if inj == nil {
			inj = &injection{id: f.ID}
			all[f.ID] = inj
		}
		switch f.Phase {
		case record.FaultInjected:
			if better(inj.injected, f) {
				inj.injected = f
			}
		case record.FaultHealed:
			if better(inj.healed, f) {
				inj.healed = f
			}
		case record.FaultFailed:
			inj.failed = f
		}
	}
	return all
}
