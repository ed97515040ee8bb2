package workload

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"

	"github.com/holdfast-ha/holdfast/framework/workload/client"
)

// work is the profile that gives the elected components something to do all the
// time: each step deletes the ConfigMap that the controller manager keeps in every
// namespace, and replaces a pod, which the scheduler binds to a node.
//
// None of it is recorded. What the components make of it is in the audit logs.
type work struct {
	t        *Traffic
	settings WorkSettings
}

// published is the ConfigMap with the cluster's CA.
const published = "kube-root-ca.crt"

// workNamespace is the profile's own: its objects are in no list and no watch of the registers.
const workNamespace = DefaultNamespace + "-work"

func (p work) start() error {
	setup, cancel := context.WithTimeout(p.t.ctx, setupLimit)
	defer cancel()
	if err := EnsureNamespace(setup, p.t.cfg.Cluster.Entrances(), workNamespace); err != nil {
		return err
	}
	return p.t.perEntrance(ProfileWork, p.settings.ClientsPerEntrance, func(r *registers, random *rand.Rand, number int) {
		made := 0
		p.t.loop(r.left, random, p.settings.Interval, func(ctx context.Context) {
			ctx, cancel := context.WithTimeout(ctx, p.t.cfg.Timeout)
			defer cancel()
			name := func(n int) string { return fmt.Sprintf("work-%d-%d-%s", number, n, p.t.suffix) }
			r.api.Do(ctx, client.Request{Method: http.MethodDelete, Path: "/api/v1/namespaces/" + workNamespace + "/configmaps/" + published})
			if made > 0 {
				r.api.Do(ctx, client.Request{Method: http.MethodDelete, Path: podKind.path(workNamespace) + "/" + name(made),
					Query: url.Values{"gracePeriodSeconds": {"0"}}})
			}
			made++
			r.api.Do(ctx, client.Request{Method: http.MethodPost, Path: podKind.path(workNamespace), Body: p.pod(name(made))})
		})
	})
}

// pod returns a pod that is for the scheduler alone: a kubelet on Linux rejects it because of
// its operating system, where starting its container would take more of a node than all else here.
func (p work) pod(name string) []byte {
	return mustJSON(map[string]any{
		"apiVersion": podKind.version, "kind": podKind.name,
		"metadata": metadata{Name: name, Namespace: workNamespace, Labels: map[string]string{ownerLabel: p.t.suffix}},
		"spec": map[string]any{
			"automountServiceAccountToken": false,
			"containers":                   containers(),
			"os":                           map[string]any{"name": "windows"},
		},
	})
}

func (p work) finish(ctx context.Context) { p.t.deleteOwn(ctx, workNamespace, podKind) }
