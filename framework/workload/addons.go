package workload

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/record"
	"github.com/holdfast-ha/holdfast/framework/workload/client"
)

// AddonRelease is the label with the Kubernetes release of an add-on.
const AddonRelease = "addons.holdfast.dev/release"

// Addons reads every add-on through each API server: the objects in kube-system that an add-on
// manager keeps in the state of their file (addonmanager.kubernetes.io/mode=Reconcile). The
// operations have the purpose "addon", resource and name as their key, and the release of the
// add-on as their value.
func Addons(ctx context.Context, c framework.Cluster, w *record.Writer) error {
	for _, e := range apiServers(c.Entrances()) {
		api, err := client.NewAPI(e.Config, client.Options{})
		if err != nil {
			return fmt.Errorf("add-ons: %w", err)
		}
		defer api.Close()
		for _, resource := range []struct{ path, name string }{
			{"/api/v1/namespaces/kube-system/configmaps", "configmaps"},
			{"/api/v1/namespaces/kube-system/services", "services"},
			{"/apis/apps/v1/namespaces/kube-system/deployments", "apps/deployments"},
		} {
			op := record.Op{Client: "addons", Entrance: e.Name, API: apiKubernetes, Type: record.OpGet, Purpose: "addon", Call: w.Now()}
			a := untilAnswered(ctx, api, client.Request{Method: http.MethodGet, Path: resource.path,
				Query: url.Values{"labelSelector": {"addonmanager.kubernetes.io/mode=Reconcile"}}})
			op.Return, op.Outcome, op.Error = w.Now(), a.Outcome(), a.Problem()
			var list metav1.PartialObjectMetadataList
			if op.Outcome == record.OK {
				if err := json.Unmarshal(a.Body, &list); err != nil {
					return fmt.Errorf("add-ons through %s: %w", e.Name, err)
				}
			}
			for _, item := range list.Items {
				op.Key, op.Value, op.Found = resource.name+"/"+item.Name, item.Labels[AddonRelease], true
				_ = w.Append(record.KindOp, op)
			}
			if op.Outcome != record.OK {
				op.Key = resource.name
				_ = w.Append(record.KindOp, op)
			}
		}
	}
	return w.Err()
}
