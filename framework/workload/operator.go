package workload

import (
	"context"
	"fmt"
	"net/http"

	"github.com/holdfast-ha/holdfast/framework/record"
	"github.com/holdfast-ha/holdfast/framework/workload/client"
)

// labelled returns the metadata of an object of the application.
func (c *operator) labelled(name, part string) metadata {
	m := c.meta(name)
	if part != "" {
		m.Labels[partLabel] = part
	}
	return m
}

func (c *operator) create(ctx context.Context, k kind, name, value string, body map[string]any) record.Op {
	op := record.Op{Type: record.OpCreate, Key: k.resource + "/" + name, Value: value}
	return c.change(ctx, k, op, http.MethodPost, k.path(c.namespace), body)
}

// podSpec is the spec of every pod: nothing runs in it, since its node is simulated.
func podSpec() map[string]any {
	var tolerations []any
	for _, taint := range []string{"not-ready", "unreachable"} {
		tolerations = append(tolerations, map[string]any{"key": "node.kubernetes.io/" + taint, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": lostAfter})
	}
	return map[string]any{
		"automountServiceAccountToken": false, "tolerations": tolerations,
		"containers": containers(),
	}
}

func (c *operator) makeDeployment(ctx context.Context, name string, replicas int, served bool) record.Op {
	meta := c.labelled(name, name)
	if served {
		meta.Labels[servedLabel] = "true"
	}
	return c.create(ctx, deploymentKind, name, c.wanted(replicas), map[string]any{
		"metadata": meta,
		"spec": map[string]any{
			"replicas": replicas,
			"selector": map[string]any{"matchLabels": map[string]string{partLabel: name}},
			"template": map[string]any{"metadata": metadata{Labels: c.labelled("", name).Labels}, "spec": podSpec()},
		},
	})
}

func (c *operator) makeService(ctx context.Context, name string) record.Op {
	return c.create(ctx, serviceKind, name, name, map[string]any{
		"metadata": c.labelled(name, name),
		"spec":     map[string]any{"selector": map[string]string{partLabel: name}, "ports": []any{map[string]any{"port": 80}}},
	})
}

// wanted is the value of a change that requests that many pods; no two are the same.
func (c *operator) wanted(replicas int) string {
	value, _ := c.next()
	return fmt.Sprintf("%d replicas (%s)", replicas, value)
}

// scaledAnnotation names the last scaling of a Deployment.
const scaledAnnotation = "holdfast.dev/scaled"

// scaleTo sets the number of pods of a Deployment. The annotation makes it a change even if the
// number stays: a patch that changes nothing returns the existing version.
func (c *operator) scaleTo(ctx context.Context, name string, replicas int) record.Op {
	op := record.Op{Type: record.OpPatch, Key: deploymentKind.resource + "/" + name, Value: c.wanted(replicas)}
	return c.change(ctx, deploymentKind, op, http.MethodPatch, deploymentKind.path(c.namespace)+"/"+name,
		map[string]any{"metadata": map[string]any{"annotations": map[string]string{scaledAnnotation: op.Value}}, "spec": map[string]any{"replicas": replicas}})
}

// remove deletes an object, immediately if it is a pod: there is nothing to wait for on a
// simulated node.
func (c *operator) remove(ctx context.Context, k kind, name string) record.Op {
	options := map[string]any{"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background"}
	if k == podKind {
		options["gracePeriodSeconds"] = 0
	}
	return c.do(ctx, record.Op{Type: record.OpDelete, Key: k.resource + "/" + name},
		client.Request{Method: http.MethodDelete, Path: k.path(c.namespace) + "/" + name, Body: mustJSON(options)},
		func(*record.Op, client.Answer) {})
}
