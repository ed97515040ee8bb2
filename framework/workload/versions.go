package workload

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientset "k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/record"
	"github.com/holdfast-ha/holdfast/framework/workload/client"
)

// Versions asks each API server, directly, for its version (/version), and each controller
// manager and scheduler whose node reports its serving endpoint (the metric
// kubernetes_build_info); for others the node asks the program. The operations have the purpose "version", the component as their key
// and the version as their value. One with the purpose "emulated-version" has the version that an
// API server emulates, if it reports that.
//
// For every kubelet and kube-proxy that the first API server lists there is one more operation,
// with component and node as its key, such as "kubelet/worker-1".
func Versions(ctx context.Context, c framework.Cluster, w *record.Writer) error {
	var all sync.WaitGroup
	ask := func(node string, component framework.Component, config *rest.Config, path string, read func([]byte) (string, error)) error {
		api, err := client.NewAPI(config, client.Options{NewConnections: true})
		if err != nil {
			return fmt.Errorf("version of %s on %s: %w", component, node, err)
		}
		all.Go(func() {
			defer api.Close()
			op, a := asked(ctx, api, w, record.Op{Client: "versions", Entrance: node, Type: record.OpGet, Key: string(component), Purpose: "version"},
				client.Request{Method: http.MethodGet, Path: path})
			if emulated := emulatedVersion(a.Body); component == framework.APIServer && op.Outcome == record.OK && emulated != "" {
				own := op
				own.Purpose, own.Value, own.Found = "emulated-version", emulated, true
				_ = w.Append(record.KindOp, own)
			}
			if op.Outcome == record.OK {
				version, err := read(a.Body)
				if op.Value, op.Found = version, err == nil; err != nil {
					op.Outcome, op.Error = record.Unknown, err.Error()
				}
			}
			_ = w.Append(record.KindOp, op)
		})
		return nil
	}
	defer all.Wait()
	for _, n := range c.Nodes() {
		i := slices.IndexFunc(c.Entrances(), func(e framework.Entrance) bool { return e.Node == n.Name() })
		if i < 0 {
			continue
		}
		config := c.Entrances()[i].Config
		if err := ask(n.Name(), framework.APIServer, config, "/version", GitVersion); err != nil {
			return err
		}
		lister, _ := n.(framework.EndpointLister)
		for _, component := range []framework.Component{framework.ControllerManager, framework.Scheduler} {
			if !slices.Contains(n.Components(), component) {
				continue
			}
			var endpoints []framework.ServingEndpoint
			if lister != nil {
				endpoints, _ = lister.ServingEndpoints(component)
			}
			if len(endpoints) == 0 {
				all.Go(func() { programVersion(ctx, n, component, w) })
				continue
			}
			// Metrics need an administrator's permissions; the endpoint's health check does not.
			own := rest.CopyConfig(config)
			own.Host, own.Dial = "https://"+endpoints[0].Address, endpoints[0].Dial
			if err := ask(n.Name(), component, own, "/metrics", BuildInfo); err != nil {
				return err
			}
		}
	}
	all.Wait()
	if err := nodeVersions(ctx, c, w); err != nil {
		return err
	}
	return w.Err()
}

// programVersion asks the running program of a component that serves nothing to others. If its
// node cannot do that, the cluster's own report has to do.
func programVersion(ctx context.Context, n framework.Node, component framework.Component, w *record.Writer) {
	versioner, ok := n.(framework.ProgramVersioner)
	if !ok {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, stepTimeout)
	defer cancel()
	op := record.Op{Client: "versions", Entrance: n.Name(), API: "kubernetes", Type: record.OpGet, Key: string(component), Purpose: "version", Call: w.Now()}
	version, err := versioner.ProgramVersion(ctx, component)
	op.Return, op.Value, op.Found, op.Outcome = w.Now(), version, err == nil, record.OK
	if err != nil {
		op.Outcome, op.Error = record.Unknown, err.Error()
	}
	_ = w.Append(record.KindOp, op)
}

// nodeVersions records the versions of what runs on every node: those that kubelets report in
// their Node objects, and the tags of kube-proxy's images.
func nodeVersions(ctx context.Context, c framework.Cluster, w *record.Writer) error {
	servers := apiServers(c.Entrances())
	if len(servers) == 0 {
		return nil
	}
	api, err := clientset.NewForConfig(withoutProxy(servers[0].Config))
	if err != nil {
		return fmt.Errorf("versions of kubelets: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, stepTimeout)
	defer cancel()
	called := w.Now()
	found := map[string]string{}
	nodes, err := api.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err == nil {
		for _, n := range nodes.Items {
			// Simulated nodes have no kubelet, and report that instead.
			if v := n.Status.NodeInfo.KubeletVersion; strings.HasPrefix(v, "v") {
				found["kubelet/"+n.Name] = v
			}
		}
		var proxies *corev1.PodList
		if proxies, err = api.CoreV1().Pods(metav1.NamespaceSystem).List(ctx, metav1.ListOptions{LabelSelector: "k8s-app=kube-proxy"}); err == nil {
			for _, p := range proxies.Items {
				image, _, _ := strings.Cut(path.Base(p.Spec.Containers[0].Image), "@") // without its digest
				if _, tag, ok := strings.Cut(image, ":"); ok {
					found["kube-proxy/"+p.Spec.NodeName] = tag
				}
			}
		}
	}
	op := record.Op{Client: "versions", Entrance: servers[0].Name, API: "kubernetes", Type: record.OpGet, Purpose: "version", Call: called, Return: w.Now()}
	if err != nil {
		op.Key, op.Outcome, op.Error = "kubelet/", record.Unknown, err.Error()
		return w.Append(record.KindOp, op)
	}
	for _, key := range slices.Sorted(maps.Keys(found)) {
		op.Key, op.Value, op.Found, op.Outcome = key, found[key], true, record.OK
		if err := w.Append(record.KindOp, op); err != nil {
			return err
		}
	}
	return nil
}

// GitVersion returns the version in the response to /version.
func GitVersion(body []byte) (string, error) {
	var v struct{ GitVersion string }
	if err := json.Unmarshal(body, &v); err != nil || v.GitVersion == "" {
		return "", fmt.Errorf("the response contains no gitVersion: %s", client.Shorten(string(body)))
	}
	return v.GitVersion, nil
}

// emulatedVersion returns the version that an API server emulates ("v1.36"), according to the
// response to /version; empty if it does not report that. It is the minor version of its own
// unless --emulated-version names an older one.
func emulatedVersion(body []byte) string {
	var v struct{ EmulationMajor, EmulationMinor string }
	if err := json.Unmarshal(body, &v); err != nil || v.EmulationMajor == "" || v.EmulationMinor == "" {
		return ""
	}
	return "v" + v.EmulationMajor + "." + v.EmulationMinor
}

// buildInfoVersion finds the version in the metrics of a component
// (k8s.io/component-base/metrics).
var buildInfoVersion = regexp.MustCompile(`(?m)^kubernetes_build_info\{[^}]*\bgit_version="([^"]+)"`)

// BuildInfo returns the version in the metrics of a component.
func BuildInfo(body []byte) (string, error) {
	found := buildInfoVersion.FindSubmatch(body)
	if found == nil {
		return "", fmt.Errorf("the metrics have no kubernetes_build_info")
	}
	return string(found[1]), nil
}
