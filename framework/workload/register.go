package workload

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/record"
	"github.com/holdfast-ha/holdfast/framework/workload/client"
)

// The APIs that operations are made through.
const (
	apiKubernetes = "kubernetes"
	apiEtcd       = "etcd"
)

// configMap is the part of a v1 ConfigMap that makes a register.
type configMap struct {
	APIVersion string   `json:"apiVersion,omitempty"`
	Kind       string   `json:"kind,omitempty"`
	Metadata   metadata `json:"metadata"`
	Data       data     `json:"data"`
}

type metadata struct {
	Name            string `json:"name,omitempty"`
	Namespace       string `json:"namespace,omitempty"`
	ResourceVersion string `json:"resourceVersion,omitempty"`
	// Labels and Annotations are those with content.
	Labels      map[string]string `json:"labels,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

type data struct {
	Value string `json:"value"`
}

// item returns the register as lists and watches show it.
func (cm configMap) item() record.Item {
	return record.Item{
		Key: cm.Metadata.Name, Value: valueOf(cm.Data.Value), Group: cm.Metadata.Labels[groupLabel], Revision: cm.Metadata.ResourceVersion,
	}
}

// content is what a write leaves in a register.
type content struct {
	value string
	group string // empty for registers outside of a collection
	size  int    // of the value in bytes; 0 for that of value itself
}

// registers is one client of the registers of a namespace through one entrance.
// Each of its operations is made once and recorded.
//
// The registers of a collection have its label; only clients with the collection change them.
type registers struct {
	api       *client.API
	w         *record.Writer
	name      string // of the client
	entrance  string
	namespace string
	purpose   string
	timeout   time.Duration
	of        *collection     // nil for none
	left      <-chan struct{} // closed when its node has left; nil for other entrances
}

// gone implements way.
func (r *registers) gone() bool { return closed(r.left) }

// newRegisters returns a client with its own connections; close it.
func newRegisters(e framework.Entrance, w *record.Writer, name, namespace, purpose string, timeout time.Duration) (*registers, error) {
	api, err := client.NewAPI(e.Config, client.Options{})
	if err != nil {
		return nil, fmt.Errorf("client %s for entrance %s: %w", name, e.Name, err)
	}
	return &registers{api: api, w: w, name: name, entrance: e.Name, namespace: namespace, purpose: purpose, timeout: timeout}, nil
}

func (r *registers) close() { r.api.Close() }

// get is a quorum read: resourceVersion is not set. A successful response with anything but the
// register is recorded as record.OtherObject.
func (r *registers) get(ctx context.Context, key string) record.Op {
	op := record.Op{Type: record.OpGet, Consistency: "quorum", Key: key}
	return r.do(ctx, op, client.Request{Method: http.MethodGet, Path: r.path(key)}, func(op *record.Op, a client.Answer) {
		if a.Absent("configmaps", key) {
			op.Outcome = record.OK
			return
		}
		if cm, ok := r.object(op, a); ok {
			i := cm.item()
			op.Found, op.Value, op.Group, op.Revision = true, i.Value, i.Group, i.Revision
		} else if a.Outcome() == record.OK {
			// The response is complete and successful, and not what was requested.
			op.Outcome, op.Error, op.Found, op.Value = record.OK, "", true, record.OtherObject+cmp.Or(cm.Metadata.Name, op.Error)
		}
	})
}

func (r *registers) create(ctx context.Context, key string, c content) record.Op {
	return r.write(ctx, record.Op{Type: record.OpCreate, Key: key}, c, http.MethodPost, r.path(""))
}

// update is a compare-and-swap: it succeeds only if the register's
// resourceVersion is still expect.
func (r *registers) update(ctx context.Context, key string, c content, expect string) record.Op {
	return r.write(ctx, record.Op{Type: record.OpUpdate, Key: key, Expect: expect}, c, http.MethodPut, r.path(key))
}

// patch changes an existing register, whatever its version.
func (r *registers) patch(ctx context.Context, key string, c content) record.Op {
	return r.write(ctx, record.Op{Type: record.OpPatch, Key: key}, c, http.MethodPatch, r.path(key))
}

func (r *registers) write(ctx context.Context, op record.Op, c content, method, path string) record.Op {
	value, text := filled(c.value, c.size)
	op.Value, op.Group = value, c.group
	req := client.Request{Method: method, Path: path}
	cm := configMap{Metadata: metadata{ResourceVersion: op.Expect, Labels: r.labels(c.group)}, Data: data{Value: text}}
	if method == http.MethodPatch {
		req.Type = client.MergePatch
	} else {
		cm.APIVersion, cm.Kind = "v1", "ConfigMap"
		cm.Metadata.Name, cm.Metadata.Namespace = op.Key, r.namespace
	}
	req.Body = mustJSON(cm)
	return r.do(ctx, op, req, func(op *record.Op, a client.Answer) {
		if cm, ok := r.object(op, a); ok {
			op.Revision = cm.Metadata.ResourceVersion
		}
	})
}

// labels returns those of a register of a group.
func (r *registers) labels(group string) map[string]string {
	if r.of == nil {
		return nil
	}
	return map[string]string{collectionLabel: r.of.name, groupLabel: group}
}

// delete deletes any version or, if expect is set, only that one.
func (r *registers) delete(ctx context.Context, key, expect string) record.Op {
	op := record.Op{Type: record.OpDelete, Key: key, Expect: expect}
	req := client.Request{Method: http.MethodDelete, Path: r.path(key)}
	if expect != "" {
		req.Body = mustJSON(map[string]any{
			"apiVersion": "v1", "kind": "DeleteOptions",
			"preconditions": map[string]string{"resourceVersion": expect},
		})
	}
	return r.do(ctx, op, req, func(op *record.Op, a client.Answer) {
		// An object in the response would be one that waits for a finalizer.
		if a.Outcome() == record.OK && !a.Done() {
			op.Outcome, op.Error = record.Unknown, client.Shorten("the deletion is not complete: "+string(a.Body))
		}
	})
}

// do makes a request, lets read complete the operation from the response, and records it.
func (r *registers) do(ctx context.Context, op record.Op, req client.Request, read func(*record.Op, client.Answer)) record.Op {
	op.Client, op.Entrance, op.API, op.Purpose = r.name, r.entrance, apiKubernetes, r.purpose
	if r.of != nil {
		op.Collection = r.of.name
	}
	ctx, cancel := context.WithTimeout(ctx, r.timeout)
	defer cancel()
	op.Call = r.w.Now()
	a := r.api.Do(ctx, req)
	op.Return = r.w.Now()
	op.Outcome, op.RetryAfter = a.Outcome(), a.Refusal()
	read(&op, a)
	if op.Outcome != record.OK && op.Error == "" {
		op.Error = a.Problem()
	}
	if op.Outcome == record.Refused {
		op.Refusal = refusal(op, a)
	}
	_ = r.w.Append(record.KindOp, op)
	if r.of != nil {
		r.of.saw(op.Revision)
	}
	return op
}

// refusal returns what a response says about a register that it refuses to write.
func refusal(op record.Op, a client.Answer) record.Refusal {
	r := a.RefusedSince("configmaps", "ConfigMap", op.Key)
	if r == record.RefusedVersion && op.Expect == "" {
		return ""
	}
	return r
}

// object reads a ConfigMap from a response. A success without the object of the operation is of
// unknown outcome; another ConfigMap is returned as well.
func (r *registers) object(op *record.Op, a client.Answer) (configMap, bool) {
	if a.Outcome() != record.OK {
		return configMap{}, false
	}
	var cm configMap
	err := json.Unmarshal(a.Body, &cm)
	whole := err == nil && cm.Kind == "ConfigMap" && cm.Metadata.ResourceVersion != ""
	if !whole || cm.Metadata.Name != op.Key {
		op.Outcome = record.Unknown
		op.Error = client.Shorten(fmt.Sprintf("status %d, but no ConfigMap %s: %s", a.Status, op.Key, a.Body))
	}
	if !whole {
		return configMap{}, false
	}
	return cm, cm.Metadata.Name == op.Key
}

func (r *registers) path(key string) string {
	p := "/api/v1/namespaces/" + r.namespace + "/configmaps"
	if key != "" {
		p += "/" + key
	}
	return p
}

func mustJSON(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // the types above always encode
	}
	return b
}
