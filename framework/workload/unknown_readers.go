package workload

import (
	"context"
	"crypto/x509/pkix"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"

	"k8s.io/client-go/rest"

	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/record"
	"github.com/holdfast-ha/holdfast/framework/workload/client"
)

// readersAtATime is how many requests of unknown readers are made at the same time.
const readersAtATime = 4

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

// UnknownReaders reads from each API server, directly, as clients that it does not know: without
// credentials, with a certificate that a foreign CA signed, and with a token that no server
// issued. They request every path of the API that can be listed and the paths outside of it,
// except the public ones (/healthz, /livez, /readyz and /version). No object is read by its name,
// so that the ConfigMap cluster-info in kube-public, which kubeadm publishes, is not requested.
//
// There is one operation for each API server and each kind of client, which is its key. They have
// the purpose "unknown-reader" and the number of paths as their value; Found reports that
// something was served, and the error names the first served path, or else the first one without
// an answer.
func UnknownReaders(ctx context.Context, c framework.Cluster, w *record.Writer) error {
	certificate, key, err := foreignCertificate(pkix.Name{CommonName: "kubernetes-admin", Organization: []string{"system:masters"}})
	if err != nil {
		return fmt.Errorf("unknown readers: making a certificate: %w", err)
	}
	token := "unknown-" + fresh()
	for _, e := range apiServers(c.Entrances()) {
		paths, problem := readablePaths(ctx, e)
		for _, kind := range []string{"anonymous", "foreign CA", "invalid token"} {
			config := rest.AnonymousClientConfig(e.Config)
			switch kind {
			case "foreign CA":
				config.CertData, config.KeyData = certificate, key
			case "invalid token":
				config.BearerToken = token
			}
			op := record.Op{Client: "unknown-readers", Entrance: e.Name, API: apiKubernetes, Type: record.OpGet, Key: kind, Purpose: "unknown-reader",
				Call: w.Now(), Value: strconv.Itoa(len(paths)), Outcome: record.Unknown}
			err := problem
			if err == nil {
				op.Outcome, err = readAs(ctx, config, paths)
			}
			if op.Found, op.Return = op.Outcome == record.OK, w.Now(); err != nil {
				op.Error = client.Shorten(err.Error())
			}
			_ = w.Append(record.KindOp, op)
		}
	}
	return w.Err()
}

// readAs requests paths with a configuration. The outcome is OK if one was served, Refused if
// every one was answered otherwise.
func readAs(ctx context.Context, config *rest.Config, paths []string) (record.Outcome, error) {
	api, err := client.NewAPI(config, client.Options{})
	if err != nil {
		return record.Unknown, err
	}
	defer api.Close()
	answers := make([]client.Answer, len(paths))
	next := make(chan int)
	var all sync.WaitGroup
	for range readersAtATime {
		all.Go(func() {
			for i := range next {
				// One object of a list will do.
				answers[i] = untilAnswered(ctx, api, client.Request{Method: http.MethodGet, Path: paths[i], Query: url.Values{"limit": {"1"}}})
			}
		})
	}
	for i := range paths {
		next <- i
	}
	close(next)
	all.Wait()
	served := slices.IndexFunc(answers, func(a client.Answer) bool { return a.Status >= 200 && a.Status < 300 })
	if served >= 0 {
		return record.OK, fmt.Errorf("%s", paths[served])
	}
	var unanswered []int
	for i, a := range answers {
		if !answered(a) {
			unanswered = append(unanswered, i)
		}
	}
	if len(unanswered) > 0 {
		return record.Unknown, fmt.Errorf("%d of %d paths have no answer; %s: %s", len(unanswered), len(paths), paths[unanswered[0]], answers[unanswered[0]].Problem())
	}
	return record.Refused, nil
}

// untilAnswered makes a request, and retries if the server did not answer or was too busy.
func untilAnswered(ctx context.Context, api *client.API, r client.Request) (a client.Answer) {
	for range stepTries {
		limited, cancel := context.WithTimeout(ctx, stepTimeout)
		a = api.Do(limited, r)
		cancel()
		if answered(a) || !client.Pause(ctx, tokenPause) {
			break
		}
	}
	return a
}

// answered reports whether a server has decided on a request: with a status, whatever happened to
// the body, or with a TLS alert, as a server does that requires a certificate it can verify.
func answered(a client.Answer) bool {
	return tlsAlert(a.Err) || a.Status > 0 && a.Status < http.StatusInternalServerError && a.Status != http.StatusTooManyRequests
}

// readablePaths queries, as an administrator, what an API server serves.
func readablePaths(ctx context.Context, e framework.Entrance) ([]string, error) {
	api, err := client.NewAPI(e.Config, client.Options{})
	if err != nil {
		return nil, err
	}
	defer api.Close()
	read := func(path string, into any) error {
		a := untilAnswered(ctx, api, client.Request{Method: http.MethodGet, Path: path})
		if a.Outcome() != record.OK {
			return fmt.Errorf("discovery of %s: %s", path, a.Problem())
		}
		if err := json.Unmarshal(a.Body, into); err != nil {
			return fmt.Errorf("discovery of %s: %w", path, err)
		}
		return nil
	}
	var index struct{ Paths []string }
	var core struct{ Versions []string }
	var named struct {
		Groups []struct {
			Versions []struct{ GroupVersion string }
		}
	}
	for path, into := range map[string]any{"/": &index, "/api": &core, "/apis": &named} {
		if err := read(path, into); err != nil {
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
	paths := slices.Concat(otherPaths, namespacePaths, index.Paths, versions)
	for _, version := range versions {
		var served struct {
			Resources []struct {
				Name  string
				Verbs []string
			}
		}
		if err := read(version, &served); err != nil {
			return nil, err
		}
		for _, r := range served.Resources {
			if slices.Contains(r.Verbs, "list") {
				paths = append(paths, version+"/"+r.Name)
			}
		}
	}
	slices.Sort(paths)
	return slices.DeleteFunc(slices.Compact(paths), isPublic), nil
}

// isPublic reports whether a path may be read without credentials: health checks, and
// the version (the ClusterRole system:public-info-viewer).
func isPublic(path string) bool {
	return slices.ContainsFunc([]string{"/healthz", "/livez", "/readyz", "/version"}, func(open string) bool {
		return path == open || strings.HasPrefix(path, open+"/")
	})
}
