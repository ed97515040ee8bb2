package workload

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-ha/holdfast/framework/record"
	"github.com/holdfast-ha/holdfast/framework/workload/apitest"
	"github.com/holdfast-ha/holdfast/framework/workload/client"
)

// controller does, without end, what controllers, scheduler and kubelets do for an
// application.
type controller struct {
	t    *testing.T
	api  *client.API
	last map[string]string // bodies by path: unchanged bodies are not written again
	// behind has nodes leave what they are given as it is.
	behind *atomic.Bool
}

// controls starts a controller, and returns a function that stops it.
func controls(t *testing.T, api *client.API, behind *atomic.Bool) (end func()) {
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		all := controller{t, api, map[string]string{}, behind}
		for {
			select {
			case <-stop:
				return
			case <-time.After(50 * time.Millisecond):
				all.reconcile()
			}
		}
	}()
	return func() { close(stop); <-stopped }
}

func (c controller) do(method, p string, body any, into any) {
	req := client.Request{Method: method, Path: p}
	if body != nil {
		req.Body = mustJSON(body)
		if c.last[method+p] == string(req.Body) {
			return
		}
		c.last[method+p] = string(req.Body)
	}
	a := c.api.Do(c.t.Context(), req)
	if into != nil && a.Outcome() == record.OK {
		if err := json.Unmarshal(a.Body, into); err != nil {
			c.t.Error(err)
		}
	}
}

func (c controller) list(p string) []clusterThing {
	var list struct{ Items []clusterThing }
	c.do(http.MethodGet, p, nil, &list)
	return list.Items
}

func (c controller) reconcile() {
	pods, deployments := podKind.path(ApplicationNamespace), deploymentKind.path(ApplicationNamespace)
	of := map[string][]clusterThing{}
	for _, p := range c.list(pods) {
		part := p.Metadata.Labels[partLabel]
		of[part] = append(of[part], p)
		if p.condition("Ready") != "True" {
			ready := strconv.FormatBool(!c.behind.Load())
			c.do(http.MethodPatch, pods+"/"+p.Metadata.Name, map[string]any{"spec": map[string]any{"nodeName": "worker-1"},
				"status": map[string]any{"phase": "Running", "conditions": []any{map[string]any{"type": "Ready", "status": strings.ToUpper(ready[:1]) + ready[1:]}}}}, nil)
		}
	}
	wanted := map[string]int{}
	for _, d := range c.list(deployments) {
		name := d.Metadata.Name
		wanted[name] = d.Spec.Replicas
		ready := []any{}
		for i := range d.Spec.Replicas {
			pod := fmt.Sprintf("%s-%d-%d", name, d.Spec.Replicas, i)
			if slices.ContainsFunc(of[name], func(p clusterThing) bool { return p.Metadata.Name == pod }) {
				continue
			}
			delete(c.last, http.MethodPatch+pods+"/"+pod)
			c.do(http.MethodPost, pods, map[string]any{"kind": "Pod", "metadata": map[string]any{"name": pod, "labels": d.Metadata.Labels,
				"uid": fmt.Sprint(pod, "-", time.Now().UnixNano()), "ownerReferences": []any{map[string]any{"kind": "ReplicaSet", "name": name, "controller": true}}}}, nil)
		}
		for _, p := range of[name] {
			if p.condition("Ready") == "True" && strings.HasPrefix(p.Metadata.Name, fmt.Sprintf("%s-%d-", name, d.Spec.Replicas)) {
				ready = append(ready, map[string]any{"targetRef": map[string]string{"uid": p.Metadata.UID}})
			}
		}
		slicePath := "/apis/discovery.k8s.io/v1/namespaces/" + ApplicationNamespace + "/endpointslices"
		slice := map[string]any{"kind": "EndpointSlice", "metadata": map[string]any{"name": name, "labels": d.Metadata.Labels}, "endpoints": ready}
		c.do(http.MethodPost, slicePath, slice, nil)
		c.do(http.MethodPut, slicePath+"/"+name, slice, nil)
		c.do(http.MethodPatch, deployments+"/"+name, map[string]any{"status": map[string]any{
			"replicas": len(of[name]), "updatedReplicas": len(of[name]), "readyReplicas": len(ready)}}, nil)
	}
	for part, pods := range of {
		for _, p := range pods {
			if part != "" && !strings.HasPrefix(p.Metadata.Name, fmt.Sprintf("%s-%d-", part, wanted[part])) {
				c.do(http.MethodDelete, podKind.path(ApplicationNamespace)+"/"+p.Metadata.Name, nil, nil)
			}
		}
	}
}

// Nodes rest as long as they had much to do.
func TestPace(t *testing.T) {
	t.Parallel()
	var p pace
	began := time.Now()
	for _, step := range []struct {
		at         time.Duration
		much, busy bool
	}{
		{0, false, false}, {1, true, true}, {2, true, true}, {4, true, true}, {5, false, true}, {8, false, true}, {9, false, false},
		{10, true, true}, {11, false, true}, {12, false, false}, {13, true, true}, {14, false, true}, {14, true, true}, {16, false, true}, {18, false, false},
	} {
		if got := p.busy(step.much, began.Add(step.at*time.Second)); got != step.busy {
			t.Errorf("after %d s busy is %v", step.at, got)
		}
	}
}

// Nodes that have fallen behind are not given more and more to do, and all continues when
// they have caught up.
func TestApplicationWaitsForNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := apitest.NewInMemory(t, 1)
		c.Set("/api/v1/nodes/worker-1", `{"kind":"Node","metadata":{"name":"worker-1"}}`)
		api, err := client.NewAPI(c.Server(0).Config(), client.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer api.Close()
		behind := &atomic.Bool{}
		end := controls(t, api, behind)
		defer end()
		w, _ := recording(t)
		traffic, err := Start(t.Context(), Config{Seed: 1, Cluster: c, Settings: Settings{Profiles: []string{ProfileApplication}, Application: ApplicationSettings{
			Interval: 50 * time.Millisecond, BatchInterval: 50 * time.Millisecond, PodInterval: 20 * time.Millisecond}}}, w)
		if err != nil {
			t.Fatal(err)
		}
		pods := func() int {
			return len(controller{t: t, api: api, last: map[string]string{}}.list(podKind.path(ApplicationNamespace)))
		}
		behind.Store(true)
		time.Sleep(2 * time.Second) // dozens of each, if nothing waited
		few := pods()
		if most := 4*5 + podsAhead + (batchesAhead+1)*batchReplicas; few > most {
			t.Errorf("%d pods, more than %d, though none of the new ones is ready", few, most)
		}
		behind.Store(false)
		before := c.Revision()
		waitFor(t, "going on", func() bool { return c.Revision() > before+300 })
		traffic.Stop()
	})
}

// TestApplicationWithoutPlace leaves the application out if no node accepts pods. An unhealthy
// node is still a node.
func TestApplicationWithoutPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for what, test := range map[string]struct {
			spec string // of the only node; none if empty
			out  bool
		}{
			"no node":           {"", true},
			"a control plane":   {`{"taints":[{"key":"node-role.kubernetes.io/control-plane","effect":"NoSchedule"}]}`, true},
			"a cordoned worker": {`{"unschedulable":true}`, true},
			"one without power": {`{"taints":[{"key":"node.kubernetes.io/unreachable","effect":"NoExecute"}]}`, false},
			"a hint":            {`{"taints":[{"key":"busy","effect":"PreferNoSchedule"}]}`, false},
		} {
			c := apitest.NewInMemory(t, 1)
			if test.spec != "" {
				c.Set("/api/v1/nodes/one", `{"kind":"Node","metadata":{"name":"one"},"spec":`+test.spec+`}`)
			}
			w, read := recording(t)
			traffic, err := Start(t.Context(), Config{Seed: 1, Cluster: c, Settings: Settings{Profiles: []string{ProfileApplication},
				Application: ApplicationSettings{StartLimit: time.Second}}}, w)
			if test.out != (err == nil) || !test.out && !errors.As(err, new(*ApplicationError)) {
				t.Errorf("%s: %v", what, err)
			}
			if traffic != nil {
				traffic.Stop()
			}
			left := slices.ContainsFunc(read().Phases, func(p record.Timed[record.Phase]) bool {
				return strings.Contains(p.V.Name, "application is left out: the cluster has no node that accepts pods")
			})
			if left != test.out {
				t.Errorf("%s: the record says that it is left out: %v", what, left)
			}
		}
	})
}

func TestApplication(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := apitest.NewInMemory(t, 2)
		c.Set("/api/v1/nodes/worker-1", `{"kind":"Node","metadata":{"name":"worker-1"},"status":{"conditions":[{"type":"Ready","status":"True"}]}}`)
		lease := func() {
			c.Set("/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/worker-1", `{"kind":"Lease","metadata":{"name":"worker-1"},"spec":{"renewTime":"2026-11-21T08:00:00.000000Z"}}`)
		}
		lease()
		api, err := client.NewAPI(c.Server(0).Config(), client.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer api.Close()
		end := controls(t, api, &atomic.Bool{})
		w, read := recording(t)
		traffic, err := Start(t.Context(), Config{Seed: 1, Cluster: c, Settings: Settings{Profiles: []string{ProfileApplication},
			Application: ApplicationSettings{Interval: 200 * time.Millisecond, BatchInterval: 500 * time.Millisecond, PodInterval: 300 * time.Millisecond}}}, w)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		c.Server(1).CloseClientConnections() // the watches continue where they were
		lease()
		waitFor(t, "the end of the first batch", func() bool {
			a := api.Do(t.Context(), client.Request{Method: http.MethodGet, Path: deploymentKind.path(ApplicationNamespace)})
			return c.Revision() > 200 && !strings.Contains(string(a.Body), `"batch-1-`)
		})
		waitFor(t, "a moment at which all is as it is wanted", func() bool {
			lacks := traffic.Application()
			return len(lacks) >= 4 && !slices.ContainsFunc(slices.Collect(maps.Values(lacks)), func(l string) bool { return l != "" })
		})
		traffic.Stop()
		end()
		run := read()

		counts := map[string]int{}
		for _, o := range run.Ops {
			if op := o.V; op.Outcome == record.OK {
				resource, _, _ := strings.Cut(op.Key, "/")
				counts[string(op.Type)+" "+resource]++
			}
		}
		for what, least := range map[string]int{"create deployments": 8, "create services": 3, "patch deployments": 15, "create pods": 8, "delete pods": 1, "delete deployments": 1} {
			if counts[what] < least {
				t.Errorf("%s: %d, want %d or more", what, counts[what], least)
			}
		}
		var s record.Standing
		kinds := map[record.ObjectKind]int{}
		for _, o := range run.Objects {
			if !s.Take(o.V) {
				t.Errorf("recorded twice or too late: %+v", o.V)
			}
			kinds[o.V.Kind]++
		}
		if kinds[record.ObjectNode] != 1 || kinds[record.ObjectHeartbeat] != 2 {
			t.Errorf("%v", kinds)
		}
		for _, part := range s.Parts() {
			if l := s.Lacks(part, ""); l != "" {
				t.Errorf("%s in the end: %s", part, l)
			}
		}
		if got := len(s.Of(record.ObjectPod, "catalog-"+traffic.suffix)); got != stillReplicas {
			t.Errorf("%d pods of the part that is not scaled", got)
		}
		// Nothing is left but what the controllers would delete.
		for _, k := range []kind{deploymentKind, serviceKind} {
			a := api.Do(t.Context(), client.Request{Method: http.MethodGet, Path: k.path(ApplicationNamespace)})
			if !strings.Contains(string(a.Body), `"items":[]`) {
				t.Errorf("left: %s", a.Body)
			}
		}
	})
}

// TestObjects follows objects through a watch that breaks, and through one whose
// history is gone.
func TestObjects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := apitest.NewInMemory(t, 1)
		nodes := "/api/v1/nodes"
		set := func(name, ready string) {
			c.Set(nodes+"/"+name, fmt.Sprintf(`{"kind":"Node","metadata":{"name":%q,"uid":%q},"status":{"conditions":[{"type":"Ready","status":%q}]}}`, name, name, ready))
		}
		set("a", "True")
		set("b", "True")
		w, read := recording(t)
		api, err := client.NewAPI(c.Server(0).Config(), client.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer api.Close()
		o := &objectWatch{sightings: &sightings{w: w}, api: api, via: "node-1", kind: record.ObjectNode, path: nodes, timeout: time.Second}
		done := make(chan struct{})
		ctx := t.Context()
		from := o.list(ctx)
		go func() {
			defer close(done)
			if next := o.follow(ctx, from); next == from {
				t.Error("the watch showed nothing to go on from")
			}
		}()
		set("a", "Unknown")
		waitFor(t, "the change", func() bool { return o.of(record.ObjectNode, "")[0].Node.Ready == "Unknown" })
		c.Server(0).CloseClientConnections()
		<-done
		api.Do(ctx, client.Request{Method: http.MethodDelete, Path: nodes + "/b"})
		c.Compact()
		if next := o.follow(ctx, from); next != "" {
			t.Errorf("a watch without its history continues from %s", next)
		}
		o.list(ctx)
		var told []string
		for _, e := range read().Objects {
			state := e.V.Node.Ready
			if e.V.Gone {
				state = "gone"
			}
			told = append(told, e.V.Name+" "+state)
		}
		if want := []string{"a True", "b True", "a Unknown", "b gone"}; !slices.Equal(told, want) {
			t.Errorf("%q, want %q", told, want)
		}
	})
}

func TestClusterThing(t *testing.T) {
	for name, tt := range map[string]struct {
		kind record.ObjectKind
		json string
		want record.Object
	}{
		"deployment": {record.ObjectDeployment, `{"metadata":{"generation":4,"labels":{"holdfast.dev/part":"web","holdfast.dev/served":"true"}},"spec":{"replicas":3},
			"status":{"observedGeneration":3,"replicas":2,"updatedReplicas":2,"readyReplicas":1}}`,
			record.Object{Part: "web", Deployment: &record.DeploymentState{Wanted: 3, Generation: 4, Observed: 3, Replicas: 2, Updated: 2, Ready: 1, Served: true}}},
		"pod": {record.ObjectPod, `{"metadata":{"deletionTimestamp":"2026-11-21T08:00:00Z","ownerReferences":[{"kind":"Other","name":"o"},{"kind":"ReplicaSet","name":"web-1","controller":true}]},
			"spec":{"nodeName":"worker-1"},"status":{"phase":"Running","conditions":[{"type":"Ready","status":"True"}],"containerStatuses":[{"restartCount":1},{"restartCount":2}]}}`,
			record.Object{Pod: &record.PodState{Controller: "ReplicaSet/web-1", Node: "worker-1", Phase: "Running", Ready: true, Deleting: true, Restarts: 3}}},
		"slice": {record.ObjectSlice, `{"endpoints":[{"targetRef":{"uid":"z"}},{"conditions":{"ready":false},"targetRef":{"uid":"x"}},{"conditions":{"ready":true},"targetRef":{"uid":"a"}}]}`,
			record.Object{Slice: &record.SliceState{Ready: []string{"a", "z"}}}},
		"node": {record.ObjectNode, `{"status":{"conditions":[{"type":"MemoryPressure","status":"False"},{"type":"Ready","status":"Unknown"}]}}`,
			record.Object{Node: &record.NodeState{Ready: "Unknown", Open: true}}},
		"tainted node": {record.ObjectNode, `{"spec":{"taints":[{"key":"node-role.kubernetes.io/control-plane","effect":"NoSchedule"}]},"status":{"conditions":[{"type":"Ready","status":"True"}]}}`,
			record.Object{Node: &record.NodeState{Ready: "True"}}},
		"cordoned node": {record.ObjectNode, `{"spec":{"unschedulable":true},"status":{"conditions":[{"type":"Ready","status":"True"}]}}`,
			record.Object{Node: &record.NodeState{Ready: "True"}}},
	} {
		var thing clusterThing
		if err := json.Unmarshal([]byte(tt.json), &thing); err != nil {
			t.Fatal(err)
		}
		tt.want.Kind, tt.want.Via = tt.kind, "node-1"
		got, want := mustJSON(thing.object(tt.kind, "node-1")), mustJSON(tt.want)
		if string(got) != string(want) {
			t.Errorf("%s:\n got %s\nwant %s", name, got, want)
		}
	}
}
