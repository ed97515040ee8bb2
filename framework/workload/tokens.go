package workload

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"k8s.io/client-go/rest"

	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/record"
	"github.com/holdfast-ha/holdfast/framework/workload/client"
)

var serviceAccountKind = kind{"ServiceAccount", "v1", "serviceaccounts"}

const (
	whoAmI     = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
	tokenPause = 250 * time.Millisecond
)

// Tokens has each API server issue a token of a service account, and asks every other one
// who the client with that token is. The operations have the purpose "token", the API
// server that issued it as their key, and as their value the user, or the reason of a
// refusal; that of issuing is made through the API server that is its key.
func Tokens(ctx context.Context, c framework.Cluster, w *record.Writer) error {
	servers := apiServers(c.Entrances())
	if len(servers) < 2 {
		return fmt.Errorf("tokens: it takes two API servers, the cluster has %d", len(servers))
	}
	setup, cancel := context.WithTimeout(ctx, setupLimit)
	defer cancel()
	if err := EnsureNamespace(setup, servers, DefaultNamespace); err != nil {
		return fmt.Errorf("tokens: %w", err)
	}
	admin, err := client.NewAPI(servers[0].Config, client.Options{})
	if err != nil {
		return fmt.Errorf("tokens: %w", err)
	}
	defer admin.Close()
	all := serviceAccountKind.path(DefaultNamespace)
	name := "token-" + fresh()
	body := mustJSON(map[string]any{"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata{Name: name}})
	if a := admin.Do(setup, client.Request{Method: http.MethodPost, Path: all, Body: body}); a.Outcome() != record.OK {
		return fmt.Errorf("tokens: creating service account %s through %s: %s", name, servers[0].Name, a.Problem())
	}
	defer admin.Do(ctx, client.Request{Method: http.MethodDelete, Path: all + "/" + name})
	for _, issuer := range servers {
		token := issueToken(ctx, issuer, all+"/"+name+"/token", w)
		for _, e := range servers {
			if e.Name != issuer.Name && token != "" {
				useToken(ctx, e, issuer.Name, token, w)
			}
		}
	}
	return w.Err()
}

// issueToken returns a token, empty if there is none.
func issueToken(ctx context.Context, e framework.Entrance, path string, w *record.Writer) string {
	body := mustJSON(map[string]any{"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": map[string]any{"expirationSeconds": 600}})
	var issued struct {
		Status struct{ Token string }
	}
	tokenOp(ctx, e, e.Config, e.Name, path, body, w, func(answer []byte) string {
		if json.Unmarshal(answer, &issued) != nil || issued.Status.Token == "" {
			return ""
		}
		return "issued"
	})
	return issued.Status.Token
}

// useToken asks an API server who the client is that has nothing but a token.
func useToken(ctx context.Context, e framework.Entrance, issuer, token string, w *record.Writer) {
	config := rest.AnonymousClientConfig(e.Config)
	config.BearerToken = token
	body := mustJSON(map[string]any{"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"})
	tokenOp(ctx, e, config, issuer, whoAmI, body, w, func(answer []byte) string {
		var review struct {
			Status struct{ UserInfo struct{ Username string } }
		}
		_ = json.Unmarshal(answer, &review)
		return review.Status.UserInfo.Username
	})
}

// tokenOp makes and records one request, again where it got no answer.
func tokenOp(ctx context.Context, e framework.Entrance, config *rest.Config, issuer, path string, body []byte, w *record.Writer, value func([]byte) string) {
	for range stepTries {
		op := record.Op{Client: "tokens", Entrance: e.Name, API: "kubernetes", Type: record.OpGet, Key: issuer, Purpose: "token", Call: w.Now()}
		a := post(ctx, config, path, body)
		op.Return, op.Outcome, op.Error, op.Value = w.Now(), a.Outcome(), a.Problem(), a.Reason()
		if op.Outcome == record.OK {
			op.Value = value(a.Body)
			op.Found = op.Value != ""
		}
		_ = w.Append(record.KindOp, op)
		if op.Outcome != record.Unknown || !client.Pause(ctx, tokenPause) {
			return
		}
	}
}

// post makes one request on a connection of its own: one of another client would bring
// that one's certificate.
func post(ctx context.Context, config *rest.Config, path string, body []byte) client.Answer {
	ctx, cancel := context.WithTimeout(ctx, stepTimeout)
	defer cancel()
	api, err := client.NewAPI(config, client.Options{NewConnections: true})
	if err != nil {
		return client.Answer{Err: err}
	}
	defer api.Close()
	return api.Do(ctx, client.Request{Method: http.MethodPost, Path: path, Body: body})
}
