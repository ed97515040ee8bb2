package observe

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/record"
	"github.com/holdfast-ha/holdfast/framework/workload/client"
)

const (
	// userAccount is a service account, and the name of its role: to read the ConfigMaps of the
	// probes' namespace.
	userAccount = "holdfast-user"
	// userInterval is the time between two of its reads. A restarted API server refuses them for
	// about 1.5 s; a third of 15 reach it.
	userInterval = 100 * time.Millisecond
)

// StartUser starts reads like those of a program in a pod, whose permissions come from a role: an
// API server knows the permissions of the administrator of the other probes even before it has
// loaded any role. It reads through each entrance that leads to several API servers, on a new
// connection each. StartUser returns once the reads are allowed; stop stops them.
func StartUser(ctx context.Context, cfg Config, w *record.Writer) (stop func(), err error) {
	return startAlone(ctx, cfg, w, (*Observers).user)
}

func (o *Observers) user(ctx context.Context) (loops []func(context.Context), err error) {
	setup, cancel := o.setup(ctx)
	defer cancel()
	for _, e := range o.cfg.Cluster.Entrances() {
		if e.Node != "" {
			continue
		}
		token, err := o.userToken(setup, e)
		if err != nil {
			return nil, fmt.Errorf("failed to make a service account for probes through %s: %w", e.Name, err)
		}
		api, err := o.api(framework.Entrance{Name: e.Name, Config: client.WithToken(e.Config, token)}, client.Options{NewConnections: true})
		if err != nil {
			return nil, err
		}
		p := o.prober(api, e, record.ProbeQuorumRead, userInterval)
		p.user = userAccount
		if err := o.allowed(setup, p); err != nil {
			return nil, err
		}
		loops = append(loops, p.run)
	}
	return loops, nil
}

// userToken creates the account and its role, unless they exist, and returns a token for it.
func (o *Observers) userToken(ctx context.Context, e framework.Entrance) (token string, err error) {
	admin, err := client.NewAPI(e.Config, client.Options{})
	if err != nil {
		return "", err
	}
	defer admin.Close()
	const core, rbac = "/api/v1/namespaces/" + probeNamespace, "/apis/rbac.authorization.k8s.io/v1/namespaces/" + probeNamespace
	account := map[string]string{"name": userAccount}
	subject := map[string]string{"kind": "ServiceAccount", "name": userAccount, "namespace": probeNamespace}
	for _, object := range []struct {
		path string
		body map[string]any
	}{
		{core + "/serviceaccounts", map[string]any{"apiVersion": "v1", "kind": "ServiceAccount", "metadata": account}},
		{rbac + "/roles", map[string]any{"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": account,
			"rules": []any{map[string]any{"apiGroups": []string{""}, "resources": []string{"configmaps"}, "verbs": []string{"get"}}}}},
		{rbac + "/rolebindings", map[string]any{"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": account, "subjects": []any{subject},
			"roleRef": map[string]string{"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": userAccount}}},
	} {
		body, err := json.Marshal(object.body)
		if err != nil {
			return "", err
		}
		if _, err := create(ctx, admin, object.path, body); err != nil {
			return "", err
		}
	}
	answer, err := create(ctx, admin, core+"/serviceaccounts/"+userAccount+"/token", client.TokenRequest())
	if err != nil {
		return "", err
	}
	return client.IssuedToken(answer)
}

// create creates an object; one that exists is as good.
func create(ctx context.Context, api *client.API, path string, body []byte) ([]byte, error) {
	for {
		a := api.Do(ctx, client.Request{Method: http.MethodPost, Path: path, Body: body})
		if a.Outcome() == record.OK || a.Reason() == "AlreadyExists" {
			return a.Body, nil
		}
		if !client.Pause(ctx, 250*time.Millisecond) {
			return nil, errors.New(a.Problem())
		}
	}
}

// allowed waits until a prober had enough answers without a refusal that every API server behind
// the entrance is likely to know its permissions. One that cannot be reached, such as behind a
// balancer that has not noticed, says nothing about them.
func (o *Observers) allowed(ctx context.Context, p *prober) error {
	last := "no answer"
	for row := 0; row < 3*o.servers(); {
		limited, cancel := context.WithTimeout(ctx, p.timeout)
		a := p.api.Do(limited, p.request(0))
		cancel()
		switch problem := problemOf(a, p.object); {
		case problem == "":
			row++
		case a.Status > 0:
			row, last = 0, problem
		}
		if !client.Pause(ctx, userInterval/4) {
			return fmt.Errorf("service account %s/%s may not read ConfigMaps through %s: %s", probeNamespace, userAccount, p.entrance, last)
		}
	}
	return nil
}
