package workload

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-ha/holdfast/framework/record"
	"github.com/holdfast-ha/holdfast/framework/workload/client"
)

// kubernetes is the profile of clients that act like nodes: they mostly renew leases, then report
// the status of pods, and write events. Leases and pods are their own; no scheduler handles the
// pods.
//
// All of it is recorded as operations of no collection: acknowledgements count for
// throughput and for the gaps of an entrance, and the renewals of a lease
// ("leases/NAME", compare-and-swap) and the status of a pod ("pods/NAME/status",
// patch) are registers of other kinds than a ConfigMap.
type kubernetes struct {
	t        *Traffic
	settings KubernetesSettings
}

// ownerLabel is on every object that the profile creates.
const ownerLabel = "holdfast.dev/traffic"

// A kind is a resource that clients of the traffic write.
type kind struct {
	name, version, resource string
}

var (
	leaseKind = kind{"Lease", "coordination.k8s.io/v1", "leases"}
	podKind   = kind{"Pod", "v1", "pods"}
	eventKind = kind{"Event", "v1", "events"}
)

func (k kind) path(namespace string) string {
	group := "/apis/" + k.version
	if !strings.Contains(k.version, "/") {
		group = "/api/" + k.version
	}
	return group + "/namespaces/" + namespace + "/" + k.resource
}

func (p kubernetes) start() error {
	return p.t.perEntrance(ProfileKubernetes, p.settings.ClientsPerEntrance, func(r *registers, random *rand.Rand, number int) {
		r.of = nil
		c := &component{registers: r, values: newValues(random, fmt.Sprintf("k%d", number), 0),
			object: fmt.Sprintf("node-%d-%s", number, p.t.suffix), owner: p.t.suffix}
		p.t.loop(r.left, random, p.settings.Interval, c.act)
	})
}

func (p kubernetes) finish(ctx context.Context) {
	p.t.deleteOwn(ctx, DefaultNamespace, leaseKind, podKind, eventKind)
}

// deleteOwn deletes what a profile created, as far as possible: through one API server after the
// other, and then through any entrance. No judge reads it any more, so it is not recorded.
func (t *Traffic) deleteOwn(ctx context.Context, namespace string, left ...kind) {
	query := url.Values{"labelSelector": {ownerLabel + "=" + t.suffix}, "propagationPolicy": {"Background"}}
	entrances := t.cfg.Cluster.Entrances()
	for _, e := range slices.Concat(apiServers(entrances), entrances) {
		r, err := t.client(e, "final/"+e.Name, "cleanup")
		if err != nil {
			continue // start made clients of the same configuration
		}
		for len(left) > 0 {
			ctx, cancel := context.WithTimeout(ctx, t.cfg.Timeout)
			a := r.api.Do(ctx, client.Request{Method: http.MethodDelete, Path: left[0].path(namespace), Query: query})
			cancel()
			if a.Outcome() != record.OK && a.Reason() != "NotFound" {
				break
			}
			left = left[1:]
		}
		r.close()
	}
}

// component is one client of the profile, with a lease and a pod.
type component struct {
	*registers
	*values
	object string // name of its lease and of its pod
	owner  string
	// lease is the version of the lease; empty if it is not known.
	lease string
	pod   bool // the pod exists
	told  bool // and its status has a value
}

// act makes one step, as often as a node would: seven of ten renew a lease.
func (c *component) act(ctx context.Context) {
	switch dice := c.random.IntN(20); {
	case dice < 14:
		c.renew(ctx)
	case dice < 17:
		c.status(ctx)
	case dice < 19:
		c.event(ctx)
	default:
		c.get(ctx, leaseKind, c.object)
		if c.told {
			c.get(ctx, podKind, c.object+"/status")
		}
	}
}

// renew updates the lease over the version that the client knows, as client-go's leader election
// does; if it does not know one, it reads the lease.
func (c *component) renew(ctx context.Context) {
	value, _ := c.next()
	op := record.Op{Type: record.OpUpdate, Key: leaseKind.resource + "/" + c.object, Value: value, Expect: c.lease}
	method, path := http.MethodPut, leaseKind.path(c.namespace)+"/"+c.object
	if c.lease == "" {
		seen := c.get(ctx, leaseKind, c.object)
		if seen.Outcome != record.OK {
			return
		}
		if op.Expect = seen.Revision; !seen.Found {
			op.Type, method, path = record.OpCreate, http.MethodPost, leaseKind.path(c.namespace)
		}
	}
	meta := c.meta(c.object)
	meta.ResourceVersion = op.Expect
	op = c.change(ctx, leaseKind, op, method, path, map[string]any{
		"metadata": meta,
		"spec": map[string]any{
			"holderIdentity": value, "leaseDurationSeconds": 40,
			"renewTime": time.Now().UTC().Format("2006-01-02T15:04:05.000000Z"),
		},
	})
	c.lease = op.Revision
}

// status patches the status of the pod, which it creates first.
func (c *component) status(ctx context.Context) {
	value, _ := c.next()
	if !c.pod {
		op := record.Op{Type: record.OpCreate, Key: podKind.resource + "/" + c.object, Value: value}
		op = c.change(ctx, podKind, op, http.MethodPost, podKind.path(c.namespace), map[string]any{
			"metadata": c.meta(c.object),
			"spec": map[string]any{
				"schedulerName": "holdfast.dev/none", "automountServiceAccountToken": false,
				"containers": containers(),
			},
		})
		// A pod without an acknowledgement exists too, or the next try creates it.
		c.pod = there(op)
		return
	}
	op := record.Op{Type: record.OpPatch, Key: podKind.resource + "/" + c.object + "/status", Value: value}
	op = c.change(ctx, podKind, op, http.MethodPatch, podKind.path(c.namespace)+"/"+c.object+"/status",
		map[string]any{"status": map[string]any{"message": value}})
	c.told = c.told || op.Outcome == record.OK
}

func (c *component) event(ctx context.Context) {
	value, _ := c.next()
	name := value + "-" + c.owner
	now := time.Now().UTC().Format(time.RFC3339)
	c.change(ctx, eventKind, record.Op{Type: record.OpCreate, Key: eventKind.resource + "/" + name, Value: value}, http.MethodPost, eventKind.path(c.namespace), map[string]any{
		"metadata":       c.meta(name),
		"involvedObject": map[string]any{"kind": podKind.name, "namespace": c.namespace, "name": c.object},
		"reason":         "Traffic", "message": value, "type": "Normal", "count": 1, "firstTimestamp": now, "lastTimestamp": now,
		"source": map[string]any{"component": "holdfast"},
	})
}

func (c *component) meta(name string) metadata {
	return metadata{Name: name, Namespace: c.namespace, Labels: map[string]string{ownerLabel: c.owner}}
}

// change makes a write; a patch has a body without kind.
func (r *registers) change(ctx context.Context, k kind, op record.Op, method, path string, body map[string]any) record.Op {
	req := client.Request{Method: method, Path: path}
	if method == http.MethodPatch {
		req.Type = client.MergePatch
	} else {
		body["apiVersion"], body["kind"] = k.version, k.name
	}
	req.Body = mustJSON(body)
	return r.do(ctx, op, req, func(op *record.Op, a client.Answer) {
		if o, ok := k.read(op, a); ok {
			op.Revision = o.Metadata.ResourceVersion
		}
	})
}

// get reads an object, or, with "/status" after its name, its status.
func (c *component) get(ctx context.Context, k kind, name string) record.Op {
	op := record.Op{Type: record.OpGet, Consistency: "quorum", Key: k.resource + "/" + name}
	return c.do(ctx, op, client.Request{Method: http.MethodGet, Path: k.path(c.namespace) + "/" + name}, func(op *record.Op, a client.Answer) { k.found(op, a) })
}

// written is the part read of any object that a client writes.
type written struct {
	Kind     string            `json:"kind"`
	Metadata metadata          `json:"metadata"`
	Data     map[string]string `json:"data"`
	Spec     struct {
		HolderIdentity string `json:"holderIdentity"`
	} `json:"spec"`
	Status struct {
		Message string `json:"message"`
	} `json:"status"`
}

// value returns what the client wrote last: each kind has one place for it.
func (o written) value() string {
	return valueOf(o.Data[valueKey]) + o.Spec.HolderIdentity + o.Status.Message
}

// found completes a read from a response: with the object, or with the statement that it does not
// exist. For any other response it returns what read does.
func (k kind) found(op *record.Op, a client.Answer) (written, bool) {
	if a.Absent(k.resource, strings.TrimPrefix(op.Key, k.resource+"/")) {
		op.Outcome = record.OK
		return written{}, true
	}
	o, ok := k.read(op, a)
	if ok {
		op.Found, op.Value, op.Group, op.Revision = true, o.value(), o.Metadata.Labels[groupLabel], o.Metadata.ResourceVersion
	}
	return o, ok
}

// read reads an object from a response. A success without the object of the operation is of
// unknown outcome; another object of the kind is returned as well.
func (k kind) read(op *record.Op, a client.Answer) (o written, ok bool) {
	if a.Outcome() != record.OK {
		return written{}, false
	}
	name := strings.TrimSuffix(strings.TrimPrefix(op.Key, k.resource+"/"), "/status")
	err := json.Unmarshal(a.Body, &o)
	whole := err == nil && o.Kind == k.name && o.Metadata.ResourceVersion != ""
	if !whole || o.Metadata.Name != name {
		op.Outcome = record.Unknown
		op.Error = client.Shorten(fmt.Sprintf("status %d, but no %s %s: %s", a.Status, k.name, name, a.Body))
	}
	if !whole {
		return written{}, false
	}
	return o, o.Metadata.Name == name
}
