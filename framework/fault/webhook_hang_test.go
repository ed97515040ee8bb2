package fault

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"

	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/workload/apitest"
)

// admission does what API servers do with webhooks.
type admission struct {
	mu    sync.Mutex
	hooks map[string]admissionregistrationv1.ValidatingWebhook
	inert bool // registrations are accepted and forgotten; so are deletions
}

func (a *admission) answer(w http.ResponseWriter, r *http.Request) bool {
	body, _ := io.ReadAll(r.Body)
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case strings.HasPrefix(r.URL.Path, webhooksPath):
		var config admissionregistrationv1.ValidatingWebhookConfiguration
		if r.Method == http.MethodPost && !a.inert && json.Unmarshal(body, &config) == nil {
			a.hooks[config.Name] = config.Webhooks[0]
		} else if !a.inert {
			delete(a.hooks, strings.TrimPrefix(r.URL.Path, webhooksPath+"/"))
		}
	case r.Method == http.MethodPost:
		for _, h := range a.hooks {
			pool := x509.NewCertPool()
			pool.AppendCertsFromPEM(h.ClientConfig.CABundle)
			client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, DisableKeepAlives: true}}
			err := callWebhook(context.Background(), client, *h.ClientConfig.URL, time.Duration(*h.TimeoutSeconds)*time.Second)
			if err != nil && *h.FailurePolicy == admissionregistrationv1.Fail {
				apitest.Fail(w, http.StatusInternalServerError, "InternalError", "failed calling webhook "+h.Name+": "+err.Error())
				return true
			}
		}
	default:
		return false
	}
	_, _ = w.Write([]byte("{}"))
	return true
}

func (a *admission) registered() []admissionregistrationv1.ValidatingWebhook {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Collect(maps.Values(a.hooks))
}

func TestWebhookHang(t *testing.T) {
	t.Parallel()
	c := newAPI(t)
	a := &admission{hooks: map[string]admissionregistrationv1.ValidatingWebhook{}, inert: true}
	c.hookAll(a.answer)
	target := component("node-2", framework.APIServer)
	if i, err := WebhookHang.Inject(soon(t), c, target, Params{TTL: ttl, Values: map[string]string{"timeout": "1s"}}); err != nil || i.Proof().Proven {
		t.Fatalf("a webhook that nobody knows is proven to hang: %v, %v", i, err)
	}
	a.inert = false
	for _, policy := range []string{"Ignore", "Fail"} {
		p := Params{TTL: ttl, Values: map[string]string{"timeout": "1s", "failurePolicy": policy, "namespace": "default"}}
		i, err := WebhookHang.Inject(t.Context(), c, target, p)
		if err != nil || !i.Proof().Proven {
			t.Fatalf("%s: %v, %v", policy, i, err)
		}
		t.Log(i.Proof().What)
		for _, h := range a.registered() {
			if scope := *h.Rules[0].Scope; scope != admissionregistrationv1.NamespacedScope {
				t.Errorf("%s: objects of scope %q wait for it, and it is for those of a namespace", policy, scope)
			}
		}
		if policy == "Fail" {
			if again, err := WebhookHang.Inject(t.Context(), c, target, p); err != nil || again.Proof().Proven {
				t.Errorf("a second webhook is proven: %v, %v", again, err)
			}
		}
		a.inert = true
		if healed, err := i.Heal(soon(t)); err != nil || healed.Proven {
			t.Errorf("%s: a webhook that is still asked is proven healed: %+v, %v", policy, healed, err)
		}
		a.inert = false
		healed, err := i.Heal(t.Context())
		if err != nil || !healed.Proven || !strings.Contains(healed.What, "node-1, node-2, node-3") {
			t.Fatalf("%s: %+v, %v", policy, healed, err)
		}
	}
	for name, value := range map[string]string{"timeout": "31s", "failurePolicy": "Maybe", "resources": "pods", "namespace": "A B"} {
		if err := WebhookHang.Check(c, target, Params{TTL: ttl, Values: map[string]string{name: value}}); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s=%s: %v", name, value, err)
		}
	}
	if err := WebhookHang.Check(c, target, Params{TTL: ttl, Values: map[string]string{"timeout": "1500ms"}}); err == nil {
		t.Error("timeout=1500ms: accepted")
	}
	if err := WebhookHang.Check(c, wholeTarget("node-1"), Params{TTL: ttl}); err == nil {
		t.Error("a whole node: accepted")
	}
}

// refusingPromiser notes what it refuses to promise.
type refusingPromiser struct {
	nodesPromise
	refused framework.Undoing
}

func (p *refusingPromiser) Promise(_ context.Context, u framework.Undoing, _ time.Duration) (string, error) {
	p.refused = u
	return "", errRefuses
}

// TestWebhookHangRefused: a webhook that was never registered does not listen either.
func TestWebhookHangRefused(t *testing.T) {
	t.Parallel()
	p := &refusingPromiser{}
	c := struct {
		apiCluster
		*refusingPromiser
	}{newAPI(t), p}
	c.hookAll((&admission{hooks: map[string]admissionregistrationv1.ValidatingWebhook{}}).answer)
	if i, err := WebhookHang.Inject(t.Context(), c, component("node-2", framework.APIServer), Params{TTL: ttl}); !errors.Is(err, errRefuses) {
		t.Fatalf("%v, %v", i, err)
	}
	name := p.refused.Delete[0]
	port := name[strings.LastIndexByte(name, '-')+1:]
	if conn, err := net.Dial("tcp", net.JoinHostPort(c.Nodes()[1].Address().String(), port)); err == nil {
		conn.Close()
		t.Errorf("port %s of a webhook that was not registered is open", port)
	}
}
