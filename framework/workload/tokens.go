package workload

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
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

// Tokens has each API server issue a token for a service account, and asks every other one which
// user the token authenticates. The operations have the purpose "token", the issuing API server
// as their key, and as their value the user, or the reason of a refusal; the operation that
// issues the token goes through the API server that is its key.
func Tokens(ctx context.Context, c framework.Cluster, w *record.Writer) error {
	servers := apiServers(c.Entrances())
	if len(servers) < 2 {
		return fmt.Errorf("tokens: two API servers are required, the cluster has %d", len(servers))
	}
	account, err := makeAccount(ctx, servers, "token-"+fresh())
	if err != nil {
		return fmt.Errorf("tokens: %w", err)
	}
	defer deleteAccount(ctx, servers[0], account)
	for _, issuer := range servers {
		op := record.Op{Client: "tokens", Purpose: "token", Key: issuer.Name}
		token := issueToken(ctx, issuer, account+"/token", op, w)
		for _, e := range servers {
			if e.Name != issuer.Name && token != "" {
				useToken(ctx, e, token, op, w)
			}
		}
	}
	return w.Err()
}

// makeAccount creates a service account and returns its path.
func makeAccount(ctx context.Context, servers []framework.Entrance, name string) (path string, err error) {
	ctx, cancel := context.WithTimeout(ctx, setupLimit)
	defer cancel()
	if err := EnsureNamespace(ctx, servers, DefaultNamespace); err != nil {
		return "", err
	}
	admin, err := client.NewAPI(servers[0].Config, client.Options{})
	if err != nil {
		return "", err
	}
	defer admin.Close()
	all := serviceAccountKind.path(DefaultNamespace)
	body := mustJSON(map[string]any{"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata{Name: name}})
	if a := admin.Do(ctx, client.Request{Method: http.MethodPost, Path: all, Body: body}); a.Outcome() != record.OK {
		return "", fmt.Errorf("failed to create service account %s through %s: %s", name, servers[0].Name, a.Problem())
	}
	return all + "/" + name, nil
}

func deleteAccount(ctx context.Context, e framework.Entrance, path string) {
	if admin, err := client.NewAPI(e.Config, client.Options{}); err == nil {
		defer admin.Close()
		admin.Do(ctx, client.Request{Method: http.MethodDelete, Path: path})
	}
}

// issueToken returns a token, empty if it failed. The value of the operation is "issued", and the
// key that signed the token and how long it is valid if the token says so: "issued by key K for
// 3600s".
func issueToken(ctx context.Context, e framework.Entrance, path string, op record.Op, w *record.Writer) string {
	token := ""
	lookOp(ctx, e, e.Config, path, client.TokenRequest(), op, w, func(answer []byte) string {
		var err error
		if token, err = client.IssuedToken(answer); err != nil {
			return ""
		}
		info, err := client.ReadToken(token)
		if err != nil || info.KeyID == "" || info.Lifetime <= 0 {
			return "issued"
		}
		return fmt.Sprintf("issued by key %s for %ds", info.KeyID, int(info.Lifetime.Seconds()))
	})
	return token
}

// useToken asks an API server which user a client with only a token is.
func useToken(ctx context.Context, e framework.Entrance, token string, op record.Op, w *record.Writer) {
	askWho(ctx, e, client.WithToken(e.Config, token), op, w)
}

// askWho asks an API server which user a client is.
func askWho(ctx context.Context, e framework.Entrance, config *rest.Config, op record.Op, w *record.Writer) {
	body := mustJSON(map[string]any{"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"})
	lookOp(ctx, e, config, whoAmI, body, op, w, func(answer []byte) string {
		var review struct {
			Status struct{ UserInfo struct{ Username string } }
		}
		_ = json.Unmarshal(answer, &review)
		return review.Status.UserInfo.Username
	})
}

// lookOp makes one request and records it in op, and retries if it had no answer. The value of an
// answered request is what value returns for the answer, that of a refused one the reason, and
// untrusted if the client does not trust the server.
func lookOp(ctx context.Context, e framework.Entrance, config *rest.Config, path string, body []byte, op record.Op, w *record.Writer, value func([]byte) string) {
	op.Entrance, op.API, op.Type = e.Name, "kubernetes", record.OpGet
	untilKnown(ctx, op, w, func(op *record.Op) {
		a := post(ctx, config, path, body)
		op.Outcome, op.Error, op.Value = a.Outcome(), a.Problem(), a.Reason()
		switch {
		case op.Outcome == record.OK:
			op.Value = value(a.Body)
			op.Found = op.Value != ""
		case errors.As(a.Err, new(x509.UnknownAuthorityError)):
			op.Outcome, op.Value = record.Refused, untrusted
		}
	})
}

// untilKnown makes one request, records the operation that ask completes, and retries while its
// outcome is unknown.
func untilKnown(ctx context.Context, op record.Op, w *record.Writer, ask func(*record.Op)) {
	for range stepTries {
		one := op
		one.Call = w.Now()
		ask(&one)
		one.Return = w.Now()
		_ = w.Append(record.KindOp, one)
		if one.Outcome != record.Unknown || !client.Pause(ctx, tokenPause) {
			return
		}
	}
}

// post makes one request on its own connection: the connection of another client would carry its
// certificate.
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
