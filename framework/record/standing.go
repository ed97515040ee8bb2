package record

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
)

// Standing is the state after some Objects: the newest version of each. The zero value has none.
type Standing struct {
	all map[string]Object // by UID, including deleted ones
	// there holds only what still exists: long runs see many more objects than exist at a time.
	there map[group]map[string]Object // by UID
}

// group is what objects are looked up by.
type group struct {
	kind ObjectKind
	part string
}

// Take adds a state. It reports whether that is news: a state no newer than the known one changes
// nothing, nor does any state after the object was deleted.
func (s *Standing) Take(o Object) bool {
	old, known := s.all[o.UID]
	if known && (old.Gone || Number(o.Revision) <= Number(old.Revision)) {
		return false
	}
	if s.all == nil {
		s.all, s.there = map[string]Object{}, map[group]map[string]Object{}
	}
	s.all[o.UID] = o
	delete(s.there[group{old.Kind, old.Part}], o.UID)
	if g := (group{o.Kind, o.Part}); !o.Gone {
		if s.there[g] == nil {
			s.there[g] = map[string]Object{}
		}
		s.there[g][o.UID] = o
	}
	return true
}

// Of returns the existing objects of a kind, sorted by name: those of one part of the application
// or, if part is empty, all.
func (s *Standing) Of(kind ObjectKind, part string) []Object {
	var found []Object
	if part != "" {
		found = slices.AppendSeq(found, maps.Values(s.there[group{kind, part}]))
	} else {
		for g, objects := range s.there {
			if g.kind == kind {
				found = slices.AppendSeq(found, maps.Values(objects))
			}
		}
	}
	slices.SortFunc(found, func(a, b Object) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.UID, b.UID))
	})
	return found
}

// Parts returns the names of the parts of the application, sorted: those that have a Deployment,
// and those with other objects left.
func (s *Standing) Parts() []string {
	parts := map[string]bool{}
	for g, objects := range s.there {
		if g.part != "" && len(objects) > 0 {
			parts[g.part] = true
		}
	}
	return slices.Sorted(maps.Keys(parts))
}

// Lacks describes how a part of the application differs from its desired state; empty if it does
// not. The desired state: as many pods as wanted, each ready and with a controller, and no others;
// its controller reports the same, and its Service lists exactly these pods. A deleted Deployment
// wants no pods. since is the lowest version in which the Deployment must be known, that of the
// last acknowledged change; empty for any, or if there is none.
func (s *Standing) Lacks(part, since string) string {
	wanted, served := 0, false
	ds := s.Of(ObjectDeployment, part)
	if len(ds) == 0 && since != "" {
		return fmt.Sprintf("version %s of the Deployment was acknowledged, and the Deployment has not been seen", since)
	}
	if len(ds) > 0 {
		d := ds[0].Deployment
		wanted, served = d.Wanted, d.Served
		switch {
		case Number(ds[0].Revision) < Number(since):
			return fmt.Sprintf("version %s of the Deployment was acknowledged, but the newest seen is %s", since, ds[0].Revision)
		case d.Observed < d.Generation:
			return fmt.Sprintf("its controller has not observed generation %d", d.Generation)
		case d.Replicas != wanted || d.Updated != wanted || d.Ready != wanted:
			return fmt.Sprintf("its controller reports %d pods, %d of them ready, and %d are desired", d.Replicas, d.Ready, wanted)
		}
	}
	ready := []string{}
	pods := s.Of(ObjectPod, part)
	for _, p := range pods {
		switch {
		case p.Pod.Controller == "":
			return fmt.Sprintf("pod %s has no controller", p.Name)
		case p.Pod.Ready && !p.Pod.Deleting:
			ready = append(ready, p.UID)
		}
	}
	if len(pods) != wanted || len(ready) != wanted {
		return fmt.Sprintf("it has %d pods, %d of them ready, and %d are desired", len(pods), len(ready), wanted)
	}
	listed := []string{}
	for _, slice := range s.Of(ObjectSlice, part) {
		listed = append(listed, slice.Slice.Ready...)
	}
	slices.Sort(ready)
	slices.Sort(listed)
	if served && !slices.Equal(ready, listed) {
		return fmt.Sprintf("its Service does not list exactly the ready pods (%d listed, %d ready)", len(listed), len(ready))
	}
	return ""
}

// UpToWorkers reports, for a part that lacks something, whether the control plane has done its
// share: the last change was observed, there are as many pods as wanted apart from terminating
// ones, each has a controller and is bound to a node, the Deployment counts the ready ones and
// the Service lists them. The rest is up to the nodes: a pod to make ready, or one to stop.
func (s *Standing) UpToWorkers(part, since string) bool {
	wanted, counted, served := 0, 0, false
	ds := s.Of(ObjectDeployment, part)
	if len(ds) == 0 && since != "" {
		return false
	}
	if len(ds) > 0 {
		d := ds[0].Deployment
		wanted, counted, served = d.Wanted, d.Ready, d.Served
		if Number(ds[0].Revision) < Number(since) || d.Observed < d.Generation || d.Replicas != wanted || d.Updated != wanted {
			return false
		}
	}
	live, ending, ready := 0, 0, []string{}
	for _, p := range s.Of(ObjectPod, part) {
		if p.Pod.Deleting {
			ending++
			continue
		}
		if p.Pod.Controller == "" || p.Pod.Node == "" {
			return false
		}
		if live++; p.Pod.Ready {
			ready = append(ready, p.UID)
		}
	}
	listed := []string{}
	for _, slice := range s.Of(ObjectSlice, part) {
		listed = append(listed, slice.Slice.Ready...)
	}
	slices.Sort(ready)
	slices.Sort(listed)
	return live == wanted && len(ready) == counted && (len(ready) < live || ending > 0) && (!served || slices.Equal(ready, listed))
}
