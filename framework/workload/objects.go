package workload

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/holdfast-ha/holdfast/framework/record"
	"github.com/holdfast-ha/holdfast/framework/workload/client"
)

// sightings records the objects that several watches see, each version once.
type sightings struct {
	w *record.Writer

	mu  sync.Mutex
	now record.Standing
}

// saw records a state, if it is news.
func (s *sightings) saw(o record.Object) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.now.Take(o) {
		_ = s.w.Append(record.KindObject, o)
	}
}

// listed adds a whole list: older objects that are not in it are gone. Deletions come first and
// new objects last, so that there never seem to be more than exist.
func (s *sightings) listed(kind record.ObjectKind, via, revision string, all []record.Object) {
	there := map[string]bool{}
	for _, o := range all {
		there[o.UID] = true
	}
	known := map[string]bool{}
	for _, o := range s.of(kind, "") {
		known[o.UID] = true
		if !there[o.UID] && record.Number(o.Revision) < record.Number(revision) {
			o.Gone, o.Revision, o.Via = true, revision, via
			s.saw(o)
		}
	}
	for _, fresh := range []bool{false, true} {
		for _, o := range all {
			if known[o.UID] != fresh {
				s.saw(o)
			}
		}
	}
}

func (s *sightings) of(kind record.ObjectKind, part string) []record.Object {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.now.Of(kind, part)
}

// lacks returns how each part differs from its wanted state; empty if it does not.
func (s *sightings) lacks() map[string]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := map[string]string{}
	for _, part := range s.now.Parts() {
		all[part] = s.now.Lacks(part, "")
	}
	return all
}

// lacking returns everything that is not in its wanted state, of all parts; empty if all is.
func (s *sightings) lacking() (all []string) {
	for part, lack := range s.lacks() {
		if lack != "" {
			all = append(all, part+": "+lack)
		}
	}
	slices.Sort(all)
	return all
}

// stands reports whether a part exists in its wanted state.
func (s *sightings) stands(part string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.now.Of(record.ObjectDeployment, part)) > 0 && s.now.Lacks(part, "") == ""
}

// upToWorkers reports whether a part lacks only what is up to the nodes.
func (s *sightings) upToWorkers(part string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.now.UpToWorkers(part, "")
}

// objectWatch follows the objects of one kind through one entrance.
type objectWatch struct {
	*sightings
	api     *client.API
	via     string
	kind    record.ObjectKind
	path    string
	label   string // a selector, empty for all
	timeout time.Duration
}

// run follows them until ctx ends: from a list, again from a list if the history is gone, and
// from the last event if a watch has ended otherwise.
func (o *objectWatch) run(ctx context.Context) {
	from := ""
	for ctx.Err() == nil {
		if from == "" {
			from = o.list(ctx)
		}
		if from != "" {
			from = o.follow(ctx, from)
		}
		client.Pause(ctx, watchPause)
	}
}

func (o *objectWatch) query() url.Values {
	q := url.Values{}
	if o.label != "" {
		q.Set("labelSelector", o.label)
	}
	return q
}

// objectPage is how many objects a page of a list has: a Node can have tens of kilobytes, and an
// answer is read up to a limit.
const objectPage = "100"

// list returns the version of the list; empty if it failed.
func (o *objectWatch) list(ctx context.Context) (version string) {
	ctx, cancel := context.WithTimeout(ctx, o.timeout)
	defer cancel()
	var all []record.Object
	for q, more := o.query(), "first"; more != ""; q.Set("continue", more) {
		q.Set("limit", objectPage)
		var page struct {
			Metadata struct{ ResourceVersion, Continue string } `json:"metadata"`
			Items    []clusterThing                             `json:"items"`
		}
		a := o.api.Do(ctx, client.Request{Method: http.MethodGet, Path: o.path, Query: q})
		if a.Outcome() != record.OK || json.Unmarshal(a.Body, &page) != nil || page.Metadata.ResourceVersion == "" {
			return ""
		}
		for _, item := range page.Items {
			all = append(all, item.object(o.kind, o.via))
		}
		version, more = page.Metadata.ResourceVersion, page.Metadata.Continue
	}
	o.listed(o.kind, o.via, version, all)
	return version
}

// follow makes one watch from a version on. It returns the version to continue from, empty if a
// list is needed.
func (o *objectWatch) follow(ctx context.Context, from string) string {
	q := o.query()
	q.Set("watch", "true")
	q.Set("resourceVersion", from)
	q.Set("allowWatchBookmarks", "true")
	body, err := o.api.Stream(ctx, client.Request{Method: http.MethodGet, Path: o.path, Query: q}, o.timeout)
	if refused, ok := errors.AsType[*client.RefusedError](err); ok && refused.Status == http.StatusGone {
		return ""
	}
	if err != nil {
		return from
	}
	defer body.Close()
	return o.events(body, from)
}

func (o *objectWatch) events(body io.Reader, from string) string {
	for all := json.NewDecoder(body); ; {
		var e struct {
			Type   string          `json:"type"`
			Object json.RawMessage `json:"object"`
		}
		if err := all.Decode(&e); err != nil {
			return from
		}
		var thing clusterThing
		if e.Type == "ERROR" || json.Unmarshal(e.Object, &thing) != nil {
			return "" // mainly that the history is gone
		}
		if e.Type != "BOOKMARK" {
			seen := thing.object(o.kind, o.via)
			seen.Gone = e.Type == "DELETED"
			o.saw(seen)
		}
		from = thing.Metadata.ResourceVersion
	}
}

// clusterThing is what is read of the followed objects, whatever their kind.
type clusterThing struct {
	Metadata struct {
		Name              string            `json:"name"`
		UID               string            `json:"uid"`
		ResourceVersion   string            `json:"resourceVersion"`
		Generation        int64             `json:"generation"`
		DeletionTimestamp *time.Time        `json:"deletionTimestamp"`
		Labels            map[string]string `json:"labels"`
		OwnerReferences   []struct {
			Kind, Name string
			Controller bool
		} `json:"ownerReferences"`
	} `json:"metadata"`
	Spec struct {
		Replicas  int       `json:"replicas"`
		NodeName  string    `json:"nodeName"`
		RenewTime time.Time `json:"renewTime"`
		corev1.NodeSpec
	} `json:"spec"`
	Status struct {
		Phase              string `json:"phase"`
		ObservedGeneration int64  `json:"observedGeneration"`
		Replicas           int    `json:"replicas"`
		UpdatedReplicas    int    `json:"updatedReplicas"`
		ReadyReplicas      int    `json:"readyReplicas"`
		Conditions         []struct{ Type, Status string }
		ContainerStatuses  []struct{ RestartCount int }
	} `json:"status"`
	Endpoints []struct {
		Conditions struct{ Ready *bool }
		TargetRef  struct{ UID string }
	} `json:"endpoints"`
}

func (t clusterThing) object(kind record.ObjectKind, via string) record.Object {
	m := t.Metadata
	o := record.Object{Kind: kind, Name: m.Name, UID: m.UID, Revision: m.ResourceVersion, Via: via, Part: m.Labels[partLabel]}
	switch kind {
	case record.ObjectDeployment:
		s := t.Status
		o.Deployment = &record.DeploymentState{Wanted: t.Spec.Replicas, Generation: m.Generation, Observed: s.ObservedGeneration,
			Replicas: s.Replicas, Updated: s.UpdatedReplicas, Ready: s.ReadyReplicas, Served: m.Labels[servedLabel] != ""}
	case record.ObjectPod:
		o.Pod = &record.PodState{Node: t.Spec.NodeName, Phase: t.Status.Phase, Ready: t.condition("Ready") == "True", Deleting: m.DeletionTimestamp != nil}
		for _, owner := range m.OwnerReferences {
			if owner.Controller {
				o.Pod.Controller = owner.Kind + "/" + owner.Name
			}
		}
		for _, c := range t.Status.ContainerStatuses {
			o.Pod.Restarts += c.RestartCount
		}
	case record.ObjectSlice:
		o.Slice = &record.SliceState{Ready: []string{}}
		for _, e := range t.Endpoints {
			// Unset means ready (EndpointConditions in the API).
			if e.Conditions.Ready == nil || *e.Conditions.Ready {
				o.Slice.Ready = append(o.Slice.Ready, e.TargetRef.UID)
			}
		}
		slices.Sort(o.Slice.Ready)
	case record.ObjectNode:
		o.Node = &record.NodeState{Ready: t.condition("Ready"), Open: acceptsPods(t.Spec.NodeSpec), Tainted: unhealthy(t.Spec.NodeSpec)}
	case record.ObjectHeartbeat:
		o.Heartbeat = &record.HeartbeatState{Renewed: t.Spec.RenewTime}
	}
	return o
}

func (t clusterThing) condition(name string) string {
	for _, c := range t.Status.Conditions {
		if c.Type == name {
			return c.Status
		}
	}
	return ""
}

// containers are those of every pod: one that does nothing, from an image that nodes have without
// a registry, since their pods need it themselves.
func containers() []any {
	return []any{map[string]any{"name": "none", "image": "registry.k8s.io/pause:3.10", "imagePullPolicy": "IfNotPresent"}}
}
