package workload

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/record"
	"github.com/holdfast-ha/holdfast/framework/workload/client"
)

//go:embed mixed_objects.yaml
var mixedObjects []byte

const (
	mixedPurpose = "mixed-object"
	// mixedLimit is how long an API server may take until it serves a CRD, or answers whether it
	// serves a kind.
	mixedLimit = 10 * time.Second
)

// mixedCRD has two versions, of which the second is stored.
const mixedCRD = `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"mixeds.mixed.holdfast.dev"},
"spec":{"group":"mixed.holdfast.dev","scope":"Namespaced","names":{"plural":"mixeds","singular":"mixed","kind":"Mixed"},"versions":[
{"name":"v1alpha1","served":true,"storage":false,"schema":{"openAPIV3Schema":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}},
{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}}]}}`

// mixedResources are the resources of the kinds in mixedObjects.
var mixedResources = map[string]string{
	"Deployment": "deployments", "HorizontalPodAutoscaler": "horizontalpodautoscalers", "CronJob": "cronjobs",
	"PodDisruptionBudget": "poddisruptionbudgets", "Ingress": "ingresses", "NetworkPolicy": "networkpolicies",
	"EndpointSlice": "endpointslices", "Lease": "leases", "Secret": "secrets", "Mixed": "mixeds", "ConfigMap": "configmaps",
	mixedPolicy: "mutatingadmissionpolicies",
}

// mixedPolicy is the kind that belongs to no namespace.
const mixedPolicy = "MutatingAdmissionPolicy"

// MixedObjects creates objects of several kinds through each API server, reads them through every
// other one, changes them through that one, and reads them through the first one again; with
// server-side apply, two field managers share an object through two API servers. Kinds that not
// every API server serves are left out. The operations have the purpose "mixed-object", kind and
// name of the object as their key, and as their value the differences from what was written;
// empty for none. A read without a name shows why a kind is left out that an API server may serve.
func MixedObjects(ctx context.Context, c framework.Cluster, w *record.Writer) error {
	m, err := newMixed(ctx, c, w)
	if err != nil {
		return err
	}
	defer m.close()
	err = m.each(func(object map[string]any) {
		if m.served(ctx, object) {
			m.pass(ctx, object)
		}
	})
	if err != nil {
		return err
	}
	m.apply(ctx)
	return w.Err()
}

func withName(object map[string]any, name string) map[string]any {
	one := maps.Clone(object)
	one["metadata"] = map[string]any{"name": name, "labels": map[string]any{"holdfast.dev/mixed": "true"}}
	return one
}

// stored returns the collection and the object in the version that is stored, if that is another
// one than it is written in.
func stored(path string, object map[string]any) (string, map[string]any) {
	if object["kind"] == "Mixed" {
		path = strings.Replace(path, "/v1alpha1/", "/v1/", 1)
		object["apiVersion"] = "mixed.holdfast.dev/v1"
	}
	return path, object
}

// newMixed returns clients of all API servers, of which there must be two, and creates the CRD.
func newMixed(ctx context.Context, c framework.Cluster, w *record.Writer) (*mixed, error) {
	m := &mixed{w: w, limit: mixedLimit}
	err := m.open(ctx, c)
	if err != nil {
		m.close()
		return nil, fmt.Errorf("mixed objects: %w", err)
	}
	return m, nil
}

// crdTries is how often the creation of the CRD is tried.
const crdTries = 5

func (m *mixed) open(ctx context.Context, c framework.Cluster) error {
	for _, e := range apiServers(c.Entrances()) {
		api, err := client.NewAPI(e.Config, client.Options{})
		if err != nil {
			return err
		}
		m.servers = append(m.servers, mixedServer{e.Name, api})
	}
	if len(m.servers) < 2 {
		return fmt.Errorf("two API servers are required, the cluster has %d", len(m.servers))
	}
	if err := EnsureNamespace(ctx, apiServers(c.Entrances()), DefaultNamespace); err != nil {
		return err
	}
	crd := client.Request{Method: http.MethodPost, Path: "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", Body: []byte(mixedCRD)}
	for try := 1; ; try++ {
		a := m.servers[0].api.Do(ctx, crd)
		if a.Outcome() == record.OK || a.Reason() == "AlreadyExists" {
			return nil
		}
		// One that was just restarted may answer 403 or 429 for a moment.
		if try == crdTries || !client.Pause(ctx, time.Second) {
			return fmt.Errorf("failed to create a CRD: %s", a.Problem())
		}
	}
}

func (m *mixed) close() {
	for _, s := range m.servers {
		s.api.Close()
	}
}

// each calls do with an object of each kind.
func (m *mixed) each(do func(map[string]any)) error {
	for _, doc := range bytes.Split(mixedObjects, []byte("\n---\n")) {
		var object map[string]any
		if err := yaml.Unmarshal(doc, &object); err != nil {
			return fmt.Errorf("mixed objects: %w", err)
		}
		do(object)
	}
	return nil
}

type mixedServer struct {
	name string
	api  *client.API
}

type mixed struct {
	servers []mixedServer
	w       *record.Writer
	limit   time.Duration // see mixedLimit
}

// mixedPath returns the path of an object's collection.
func mixedPath(object map[string]any) string {
	prefix := "/apis/"
	if object["apiVersion"] == "v1" {
		prefix = "/api/"
	}
	kind, in := object["kind"].(string), "/namespaces/"+DefaultNamespace
	if kind == mixedPolicy {
		in = ""
	}
	return fmt.Sprintf("%s%s%s/%s", prefix, object["apiVersion"], in, mixedResources[kind])
}

// served reports whether every API server serves the object's kind. Any answer but that the path
// does not exist may be about an object of a kind that is served: the API server is asked again,
// and its last answer is recorded.
func (m *mixed) served(ctx context.Context, object map[string]any) bool {
	limited, cancel := context.WithTimeout(ctx, m.limit)
	defer cancel()
	list := client.Request{Method: http.MethodGet, Path: mixedPath(object), Query: url.Values{"limit": {"1"}}}
	for _, s := range m.servers {
		for {
			op, a := m.request(ctx, s, record.OpGet, object["kind"].(string)+"/", list)
			if op.Outcome == record.OK {
				break
			}
			// An API server takes a moment to serve a CRD.
			if object["kind"] != "Mixed" && a.Status == http.StatusNotFound {
				return false
			}
			if !client.Pause(limited, 100*time.Millisecond) {
				_ = m.w.Append(record.KindOp, op)
				return false
			}
		}
	}
	return true
}

// pass passes an object from each API server to every other one and back, until a change is not
// acknowledged.
func (m *mixed) pass(ctx context.Context, object map[string]any) {
	for i, from := range m.servers {
		name := fmt.Sprintf("mixed-%d-%s", i, fresh())
		want := withName(object, name)
		key := object["kind"].(string) + "/" + name
		path := mixedPath(object)
		if !m.ask(ctx, from, record.OpCreate, key, client.Request{Method: http.MethodPost, Path: path, Body: mustJSON(want)}, want) {
			continue
		}
		path, want = stored(path, want)
		get := client.Request{Method: http.MethodGet, Path: path + "/" + name}
		annotations := map[string]any{}
		for j, to := range m.servers {
			if j == i {
				continue
			}
			m.ask(ctx, to, record.OpGet, key, get, want)
			annotations["holdfast.dev/"+to.name] = "changed"
			want["metadata"].(map[string]any)["annotations"] = annotations
			patch := mustJSON(map[string]any{"metadata": map[string]any{"annotations": annotations}})
			if !m.ask(ctx, to, record.OpPatch, key, client.Request{Method: http.MethodPatch, Path: path + "/" + name, Type: client.MergePatch, Body: patch}, want) {
				break // nothing shows what the object is now
			}
			m.ask(ctx, from, record.OpGet, key, get, want)
		}
		_ = from.api.Do(ctx, client.Request{Method: http.MethodDelete, Path: path + "/" + name})
	}
}

// apply makes two field managers share a ConfigMap through two API servers.
func (m *mixed) apply(ctx context.Context) {
	for i, from := range m.servers {
		to := m.servers[(i+1)%len(m.servers)]
		name := fmt.Sprintf("mixed-applied-%d-%s", i, fresh())
		object := map[string]any{"apiVersion": "v1", "kind": "ConfigMap"}
		path, key := mixedPath(object)+"/"+name, "ConfigMap/"+name
		apply := func(s mixedServer, op record.OpType, manager string, data, want map[string]any) bool {
			object["metadata"], object["data"] = map[string]any{"name": name}, data
			return m.ask(ctx, s, op, key, client.Request{Method: http.MethodPatch, Path: path, Query: url.Values{"fieldManager": {manager}},
				Type: "application/apply-patch+yaml", Body: mustJSON(object)}, map[string]any{"data": want})
		}
		get := client.Request{Method: http.MethodGet, Path: path}
		ok := apply(from, record.OpCreate, "one", map[string]any{"a": "1", "b": "1"}, map[string]any{"a": "1", "b": "1"}) &&
			apply(to, record.OpPatch, "two", map[string]any{"c": "2"}, map[string]any{"a": "1", "b": "1", "c": "2"}) &&
			// A field that manager one no longer applies is its own and is removed; no other is.
			apply(from, record.OpPatch, "one", map[string]any{"a": "1"}, map[string]any{"a": "1", "b": nil, "c": "2"})
		if ok {
			m.ask(ctx, to, record.OpGet, key, get, map[string]any{"data": map[string]any{"a": "1", "b": nil, "c": "2"}})
		}
		_ = from.api.Do(ctx, client.Request{Method: http.MethodDelete, Path: path})
	}
}

// ask makes and records one request, and reports whether it was answered with the object. A read
// or a patch that fails is repeated, since the API server may have lost etcd for a moment, and each
// try is recorded.
func (m *mixed) ask(ctx context.Context, s mixedServer, kind record.OpType, key string, r client.Request, want map[string]any) bool {
	for try := 1; ; try++ {
		op, a := m.request(ctx, s, kind, key, r)
		switch {
		case op.Outcome == record.OK:
			var has map[string]any
			if err := json.Unmarshal(a.Body, &has); err != nil {
				op.Outcome, op.Error = record.Unknown, err.Error()
				break
			}
			op.Found = true
			op.Value = strings.Join(differences("", want, has), "; ")
		case kind == record.OpGet && a.Reason() == "NotFound":
			op.Outcome, op.Error = record.OK, ""
		}
		_ = m.w.Append(record.KindOp, op)
		failed := kind == record.OpGet && op.Outcome == record.Unknown && a.Status != http.StatusNotFound ||
			kind == record.OpPatch && op.Outcome != record.OK
		if !failed || try == stepTries || !client.Pause(ctx, 250*time.Millisecond) {
			return op.Outcome == record.OK
		}
	}
}

// request makes one request, and returns it as it is to be recorded.
func (m *mixed) request(ctx context.Context, s mixedServer, kind record.OpType, key string, r client.Request) (record.Op, client.Answer) {
	return asked(ctx, s.api, m.w, record.Op{Client: "mixed", Entrance: s.name, Type: kind, Key: key, Purpose: mixedPurpose}, r)
}

// differences lists the fields that differ from the wanted ones; nil means that a field must be
// missing. Other fields do not matter: another version may set them.
func differences(path string, want, has any) []string {
	switch want := want.(type) {
	case map[string]any:
		fields, _ := has.(map[string]any)
		var all []string
		for _, name := range slices.Sorted(maps.Keys(want)) {
			all = append(all, differences(strings.TrimPrefix(path+"."+name, "."), want[name], fields[name])...)
		}
		return all
	case []any:
		items, _ := has.([]any)
		if len(items) != len(want) {
			return []string{fmt.Sprintf("%s has %d items, not %d", path, len(items), len(want))}
		}
		var all []string
		for i := range want {
			all = append(all, differences(fmt.Sprintf("%s[%d]", path, i), want[i], items[i])...)
		}
		return all
	}
	if is, should := string(mustJSON(has)), string(mustJSON(want)); is != should {
		return []string{fmt.Sprintf("%s is %s, not %s", path, is, should)}
	}
	return nil
}

// LastingObjects creates an object of each kind through each API server, recorded as by
// MixedObjects, and leaves them there.
func LastingObjects(ctx context.Context, c framework.Cluster, w *record.Writer) error {
	return lasting(ctx, c, w, func(m *mixed, i int, object map[string]any) {
		if !m.served(ctx, object) {
			return
		}
		want := withName(object, lastingName(i))
		m.ask(ctx, m.servers[i], record.OpCreate, lastingKey(object, i), client.Request{Method: http.MethodPost, Path: mixedPath(object), Body: mustJSON(want)}, want)
	})
}

// LastingReads reads the objects of LastingObjects through each API server.
func LastingReads(ctx context.Context, c framework.Cluster, w *record.Writer) error {
	return lasting(ctx, c, w, func(m *mixed, i int, object map[string]any) {
		key := lastingKey(object, i)
		path, want := stored(mixedPath(object), withName(object, lastingName(i)))
		for _, s := range m.servers {
			m.ask(ctx, s, record.OpGet, key, client.Request{Method: http.MethodGet, Path: path + "/" + lastingName(i)}, want)
		}
	})
}

func lasting(ctx context.Context, c framework.Cluster, w *record.Writer, do func(m *mixed, server int, object map[string]any)) error {
	m, err := newMixed(ctx, c, w)
	if err != nil {
		return err
	}
	defer m.close()
	err = m.each(func(object map[string]any) {
		for i := range m.servers {
			do(m, i, object)
		}
	})
	return errors.Join(err, w.Err())
}

// lastingName is the name of the objects that LastingObjects creates through an API server.
func lastingName(server int) string { return fmt.Sprintf("lasting-%d", server) }

func lastingKey(object map[string]any, server int) string {
	return object["kind"].(string) + "/" + lastingName(server)
}
