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
	// userAccount is a service account, and the name of the role that it has: to read the
	// ConfigMaps of the probes' namespace.
	userAccount = "holdfast-user"
	// userInterval is the time between two of its reads. An API server that has just been
	// started refuses them for about 1.5 s; a third of 15 come to it.
	userInterval = 100 * time.Millisecond
)

// StartUser starts reads as those of a program in a pod, whose rights come from a role: the
// rights of the administrator that other probes have are known to an API server that does
// not know any role yet. They are made through each way in that leads to several API
// servers, on a new connection each. StartUser returns once they are allowed; stop ends them.
func StartUser(ctx context.Context, cfg Config, w *record.Writer) (stop func(), err error) {
	return startAlone(ctx, cfg, w, (*Observers).user)
}

func (o *Observers) user(ctx context.Context) (loops []func(context.Context), err error) {
	setup, cancel := context.WithTimeout(ctx, setupLimit)
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
		p := &prober{o: o, api: api, entrance: e.Name, user: userAccount, kind: record.ProbeQuorumRead, object: keptObject(e), interval: userInterval, timeout: o.cfg.ReadTimeout}
		if err := o.allowed(setup, p); err != nil {
			return nil, err
		}
		loops = append(loops, p.run)
	}
	return loops, nil
}

// userToken makes the account and its role, unless they exist, and returns a token of it.
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

// create makes an object; one that exists is as good.
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

// allowed waits until a prober was answered often enough without a refusal that every API
// server to which the way in leads now is likely to know its rights. One that cannot be
// reached, as behind a balancer that does not notice, says nothing of them.
func (o *Observers) allowed(ctx context.Context, p *prober) error {
	last := "no answer"
	for row := 0; row < 3*len(o.cfg.Cluster.Nodes()); {
		limited, cancel := context.WithTimeout(ctx, p.timeout)
		a := p.api.Do(limited, p.request(0))
		cancel()
		switch {
		case a.Outcome() == record.OK:
			row++
		case a.Status > 0:
			row, last = 0, a.Problem()
		}
		if !client.Pause(ctx, userInterval/4) {
			return fmt.Errorf("service account %s/%s may not read ConfigMaps through %s: %s", probeNamespace, userAccount, p.entrance, last)
		}
	}
	return nil
}
