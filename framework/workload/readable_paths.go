package workload

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/record"
	"github.com/holdfast-ha/holdfast/framework/workload/client"
)

// otherPaths are paths of an API server that discovery does not list, or that it lists
// only where they are enabled. Profiles are left out, since they take 30 s.
var otherPaths = []string{
	"/", "/api", "/apis", "/openapi/v2", "/openapi/v3", "/metrics", "/metrics/slis", "/logs", "/logs/",
	"/debug/pprof", "/debug/pprof/", "/debug/pprof/cmdline", "/debug/flags/v", "/configz", "/flagz", "/statusz",
	"/.well-known/openid-configuration", "/openid/v1/jwks",
}

// namespacePaths are lists in single namespaces: a role may give rights in one alone.
var namespacePaths = []string{
	"/api/v1/namespaces/default/configmaps", "/api/v1/namespaces/default/secrets",
	"/api/v1/namespaces/kube-public/configmaps", "/api/v1/namespaces/kube-public/secrets",
	"/api/v1/namespaces/kube-system/configmaps", "/api/v1/namespaces/kube-system/secrets",
}

// unknownName is a name that no object has: a request for it returns no data to any client.
const unknownName = "holdfast-unknown"

// pathReader reads, as an administrator, what an API server publishes about its paths.
type pathReader struct {
	ctx context.Context
	api *client.API
}

// readablePaths queries, as an administrator, what an API server serves.
func readablePaths(ctx context.Context, e framework.Entrance) ([]string, error) {
	api, err := client.NewAPI(e.Config, client.Options{})
	if err != nil {
		return nil, err
	}
	defer api.Close()
	r := pathReader{ctx, api}
	discovered, err := r.discovery()
	if err != nil {
		return nil, fmt.Errorf("discovery of %w", err)
	}
	documented, err := r.openAPI()
	if err != nil {
		return nil, fmt.Errorf("OpenAPI document %w", err)
	}
	paths := slices.Concat(otherPaths, namespacePaths, discovered, documented)
	slices.Sort(paths)
	return slices.DeleteFunc(slices.Compact(paths), isPublic), nil
}

// read decodes the document at a path; found is false if the server has no such path.
func (r pathReader) read(path string, into any) (found bool, err error) {
	a := untilAnswered(r.ctx, r.api, client.Request{Method: http.MethodGet, Path: path})
	if a.Err == nil && a.Status == http.StatusNotFound {
		return false, nil
	}
	if a.Outcome() != record.OK {
		return false, fmt.Errorf("%s: %s", path, a.Problem())
	}
	if err := json.Unmarshal(a.Body, into); err != nil {
		return false, fmt.Errorf("%s: %w", path, err)
	}
	return true, nil
}

// need decodes the document at a path that every API server has.
func (r pathReader) need(path string, into any) error {
	found, err := r.read(path, into)
	if err == nil && !found {
		err = fmt.Errorf("%s: status 404", path)
	}
	return err
}

// discovery returns the index of an API server, its group versions, and the resources that can be
// listed.
func (r pathReader) discovery() ([]string, error) {
	var index metav1.RootPaths
	var core metav1.APIVersions
	var named metav1.APIGroupList
	for path, into := range map[string]any{"/": &index, "/api": &core, "/apis": &named} {
		if err := r.need(path, into); err != nil {
			return nil, err
		}
	}
	var versions []string
	for _, v := range core.Versions {
		versions = append(versions, "/api/"+v)
	}
	for _, g := range named.Groups {
		for _, v := range g.Versions {
			versions = append(versions, "/apis/"+v.GroupVersion)
		}
	}
	paths := slices.Concat(index.Paths, versions)
	for _, version := range versions {
		var group metav1.APIResourceList
		if err := r.need(version, &group); err != nil {
			return nil, err
		}
		for _, resource := range group.APIResources {
			if slices.Contains(resource.Verbs, "list") {
				paths = append(paths, version+"/"+resource.Name)
			}
		}
	}
	return paths, nil
}

// openAPI returns the paths with a GET operation in the OpenAPI documents of an API server, such
// as objects by their names, their subresources, and watches. An API server older than Kubernetes
// 1.24 publishes no OpenAPI v3; a document may be gone since the list of them was read.
func (r pathReader) openAPI() (paths []string, err error) {
	var list struct {
		Paths map[string]struct{ ServerRelativeURL string }
	}
	if found, err := r.read("/openapi/v3", &list); err != nil || !found {
		return nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(list.Paths)) {
		// Without the hash in its query: with one, a changed document is a redirect.
		at, err := url.Parse(list.Paths[name].ServerRelativeURL)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		var document struct {
			Paths map[string]struct{ Get *struct{} }
		}
		if _, err := r.read(at.Path, &document); err != nil {
			return nil, err
		}
		for path, operations := range document.Paths {
			if operations.Get != nil {
				paths = append(paths, fillIn(path))
			}
		}
	}
	return paths, nil
}

var parameter = regexp.MustCompile(`\{[^}]*\}`)

// fillIn replaces the parameters in a path of OpenAPI.
func fillIn(path string) string {
	return parameter.ReplaceAllString(strings.ReplaceAll(path, "{namespace}", "default"), unknownName)
}

// isWatch reports whether a path is one of the older ones that watch without a query.
func isWatch(path string) bool {
	parts := strings.Split(strings.TrimPrefix(path, "/"), "/")
	return len(parts) > 2 && parts[0] == "api" && parts[2] == "watch" || len(parts) > 3 && parts[0] == "apis" && parts[3] == "watch"
}

// isPublic reports whether a path may be read without credentials: health checks, and
// the version (the ClusterRole system:public-info-viewer).
func isPublic(path string) bool {
	return slices.ContainsFunc([]string{"/healthz", "/livez", "/readyz", "/version"}, func(open string) bool {
		return path == open || strings.HasPrefix(path, open+"/")
	})
}
