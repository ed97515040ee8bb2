package workload

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/record"
	"github.com/holdfast-ha/holdfast/framework/workload/client"
)

// The APIs that operations are made through.
const (
	apiKubernetes = "kubernetes"
	apiEtcd       = "etcd"
)

// metadata is that of every object that the harness writes.
type metadata = metav1.ObjectMeta

// configMapKind is the kind of the registers.
var configMapKind = kind{"ConfigMap", "v1", "configmaps"}

// valueKey is the key of a register's value in the data of its ConfigMap.
const valueKey = "value"

// itemOf returns a register as lists and watches show it.
func itemOf(cm corev1.ConfigMap) record.Item {
	return record.Item{Key: cm.Name, Value: valueOf(cm.Data[valueKey]), Group: cm.Labels[groupLabel], Revision: cm.ResourceVersion}
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
		if got, ok := configMapKind.found(op, a); !ok && a.Outcome() == record.OK {
			// The response is complete and successful, and not what was requested.
			op.Outcome, op.Error, op.Found, op.Value = record.OK, "", true, record.OtherObject+cmp.Or(got.Metadata.Name, op.Error)
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
	meta := metadata{ResourceVersion: op.Expect, Labels: r.labels(c.group)}
	if method != http.MethodPatch {
		meta.Name, meta.Namespace = op.Key, r.namespace
	}
	return r.change(ctx, configMapKind, op, method, path, map[string]any{"metadata": meta, "data": map[string]string{valueKey: text}})
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
	op.Outcome, op.Unsent, op.RetryAfter = a.Outcome(), !a.Sent, a.Refusal()
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
	r := a.RefusedSince(configMapKind.resource, configMapKind.name, op.Key)
	if r == record.RefusedVersion && op.Expect == "" {
		return ""
	}
	return r
}

// path returns that of a register or, without a key, of all of them.
func (r *registers) path(key string) string {
	return strings.TrimSuffix(configMapKind.path(r.namespace)+"/"+key, "/")
}

func mustJSON(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // what is sent always encodes: maps, strings, numbers and metadata
	}
	return b
}
