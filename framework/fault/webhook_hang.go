package fault

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/record"
	"github.com/holdfast-ha/holdfast/framework/workload/client"
)

const (
	webhooksPath = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
	webhooksKey  = "validatingwebhookconfigurations/"
	webhookName  = "hang.holdfast.dev" // as API servers put it into refusals
	// webhookProbe is the object that proofs create, as a dry run.
	webhookProbe = "holdfast-webhook-probe"
	// webhookGrace is how long the webhook still answers after it was healed, for an API server
	// that has not noticed yet.
	webhookGrace = time.Minute
)

// WebhookHang registers an admission webhook that does not answer.
var WebhookHang = &Fault{
	Name:    "webhook-hang",
	Summary: "registers a validating admission webhook, served by the process that injects the fault, that accepts requests and does not answer them; healing makes it allow everything and deletes it",
	Targets: []string{"apiserver"},
	Params: []Param{
		choiceParam("resources", "objects for which API servers call the webhook when they are created or changed", "configmaps", "all"),
		{Name: "namespace", Doc: "only objects in this namespace", Default: "every namespace", Allowed: "the name of a namespace",
			Parse: func(v string) (any, bool) { return v, nodeName(v) }},
		durationParam("timeout", "how long API servers wait for its answer, in whole seconds", 10*time.Second, time.Second, 30*time.Second),
		choiceParam("failurePolicy", "what API servers do then: Fail refuses the request, Ignore allows it", string(admissionregistrationv1.Fail), string(admissionregistrationv1.Ignore)),
	},
	Needs:   []string{"an entrance; EtcdAccess to delete it if no API server answers", promiserNeed},
	Example: "apiserver/any timeout=2s failurePolicy=Fail",
	Effects: does(record.EffectAdmission),
	takes:   func(r Request) time.Duration { return Value[time.Duration](r, "timeout") },
	Prepare: func(r Request) (Inject, error) {
		w, err := webhookOf(r)
		return func(ctx context.Context) (Injection, error) { return w.inject(ctx, r) }, err
	},
	Promised: true, // the webhook itself stops with its process
}

// hangingWebhook is a webhook and its registration.
type hangingWebhook struct {
	cluster  framework.Cluster
	node     framework.Node
	entrance framework.Entrance
	name     string
	rule     admissionregistrationv1.Rule
	space    string // the namespace, empty for all
	timeout  time.Duration
	policy   admissionregistrationv1.FailurePolicyType
	server   *webhookServer
}

func webhookOf(r Request) (w *hangingWebhook, err error) {
	w = &hangingWebhook{cluster: r.Cluster, timeout: Value[time.Duration](r, "timeout"), space: Value[string](r, "namespace"),
		policy: admissionregistrationv1.FailurePolicyType(Value[string](r, "failurePolicy")),
		rule:   admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"configmaps"}}}
	if Value[string](r, "resources") == "all" {
		w.rule = admissionregistrationv1.Rule{APIGroups: []string{"*"}, APIVersions: []string{"*"}, Resources: []string{"*/*"}}
	}
	if w.entrance, err = r.apiServer(); err != nil {
		return nil, err
	}
	if w.node, err = r.node(); err != nil {
		return nil, err
	}
	if w.timeout%time.Second != 0 {
		return nil, r.bad("timeout", "whole seconds")
	}
	if r.TTL <= w.timeout {
		return nil, fmt.Errorf("time to live %s: it must be longer than timeout=%s, the time that the proof of effect takes", r.TTL, w.timeout)
	}
	return w, nil
}

func (w *hangingWebhook) inject(ctx context.Context, r Request) (Injection, error) {
	t := r.Target
	if err := w.create(ctx, w.entrance); err != nil && strings.Contains(err.Error(), webhookName) {
		return notInjected(t, "a webhook already hangs: %v", err), nil
	} else if err != nil {
		return nil, r.beforeFault(fmt.Errorf("failed to create a ConfigMap, as a dry run, through entrance %s: %w", w.entrance.Name, err))
	}
	// API servers reach this process at the address from which it would connect to them.
	route, err := net.Dial("udp", net.JoinHostPort(w.node.Address().String(), "6443"))
	if err != nil {
		return nil, r.beforeFault(fmt.Errorf("failed to find an address of this process that node %s reaches: %w", t.Node, err))
	}
	address := route.LocalAddr().(*net.UDPAddr).IP
	_ = route.Close()
	if w.server, err = startWebhook(address); err != nil {
		return nil, r.beforeFault(err)
	}
	w.name = "holdfast-webhook-hang-" + strconv.Itoa(w.server.port)
	asked := false
	i, err := attempt{
		target:   t,
		what:     "registering a webhook that hangs",
		ask:      func(ctx context.Context) error { asked = true; return w.register(ctx) },
		effect:   w.hangs,
		patience: w.timeout + healLimit/2,
		undo:     w.takeAway,
		healed:   w.gone,
	}.promised(r, framework.Undoing{Delete: []string{registry + webhooksKey + w.name}}).stored(r).injection(ctx)
	if !asked {
		w.server.close()
	}
	return i, err
}

func (w *hangingWebhook) register(ctx context.Context) error {
	url := "https://" + net.JoinHostPort(w.server.address.String(), strconv.Itoa(w.server.port)) + "/"
	seconds, none, scope := int32(w.timeout/time.Second), admissionregistrationv1.SideEffectClassNone, admissionregistrationv1.AllScopes
	w.rule.Scope = &scope
	hook := admissionregistrationv1.ValidatingWebhook{
		Name:         webhookName,
		ClientConfig: admissionregistrationv1.WebhookClientConfig{URL: &url, CABundle: w.server.authority},
		Rules: []admissionregistrationv1.RuleWithOperations{{Rule: w.rule,
			Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create, admissionregistrationv1.Update}}},
		FailurePolicy: &w.policy, SideEffects: &none, TimeoutSeconds: &seconds, AdmissionReviewVersions: []string{"v1"},
	}
	if w.space != "" {
		// The selector exempts no object without a namespace, other than Namespaces themselves.
		scope = admissionregistrationv1.NamespacedScope
		hook.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: w.space}}
	}
	body, err := json.Marshal(&admissionregistrationv1.ValidatingWebhookConfiguration{
		TypeMeta:   metav1.TypeMeta{APIVersion: "admissionregistration.k8s.io/v1", Kind: "ValidatingWebhookConfiguration"},
		ObjectMeta: metav1.ObjectMeta{Name: w.name},
		Webhooks:   []admissionregistrationv1.ValidatingWebhook{hook},
	})
	if err != nil {
		return err
	}
	_, err = throughAny(ctx, w.cluster, http.MethodPost, webhooksPath, body)
	return err
}

// create creates an object that the webhook must admit through an entrance, as a dry run. It waits
// for longer than the webhook's timeout.
func (w *hangingWebhook) create(ctx context.Context, e framework.Entrance) error {
	space := cmp.Or(w.space, metav1.NamespaceDefault)
	body, err := json.Marshal(&corev1.ConfigMap{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}, ObjectMeta: metav1.ObjectMeta{Name: webhookProbe}})
	if err != nil {
		return err
	}
	answer, status, err := sendFor(ctx, w.timeout+tryLimit, e, client.Request{Method: http.MethodPost,
		Path: "/api/v1/namespaces/" + space + "/configmaps", Query: url.Values{"dryRun": {"All"}}, Body: body})
	if err == nil && status/100 != 2 {
		err = &refusedError{status, string(answer)}
	}
	return err
}

// hangs checks whether a request waited for the webhook until it timed out.
func (w *hangingWebhook) hangs(ctx context.Context) (bool, string) {
	asked, began := w.server.asked.Load(), time.Now()
	err := w.create(ctx, w.entrance)
	took := time.Since(began).Round(time.Millisecond)
	seen := fmt.Sprintf("a ConfigMap was created, as a dry run, through entrance %s after %s", w.entrance.Name, took)
	if err != nil {
		seen = fmt.Sprintf("creating a ConfigMap, as a dry run, through entrance %s, after %s: %v", w.entrance.Name, took, err)
	}
	if w.server.asked.Load() == asked {
		return false, seen + "; the webhook was not called"
	}
	refused := err != nil && strings.Contains(err.Error(), webhookName)
	waited := took >= w.timeout && (refused || err == nil && w.policy == admissionregistrationv1.Ignore)
	return waited, seen
}

func (w *hangingWebhook) takeAway(ctx context.Context) error {
	// The server first: requests that wait for it continue, whether or not the registration can
	// be removed.
	w.server.allow()
	if err := remove(ctx, w.cluster, webhooksPath+"/"+w.name, webhooksKey+w.name); err != nil {
		return err
	}
	time.AfterFunc(webhookGrace, w.server.close)
	return nil
}

// gone checks whether requests through every ready API server pass without the webhook.
func (w *hangingWebhook) gone(ctx context.Context) (bool, string) {
	var through []string
	for _, e := range w.cluster.Entrances() {
		if e.Kind != framework.EntranceAPIServer {
			continue
		}
		if up, _ := ready(ctx, e); !up {
			continue
		}
		asked := w.server.asked.Load()
		if err := w.create(ctx, e); err != nil {
			return false, fmt.Sprintf("creating a ConfigMap, as a dry run, through entrance %s: %v", e.Name, err)
		}
		if w.server.asked.Load() != asked {
			return false, fmt.Sprintf("%s or another API server still calls the webhook", e.Name)
		}
		through = append(through, e.Name)
	}
	if len(through) == 0 {
		return false, "no API server is ready"
	}
	return true, fmt.Sprintf("a ConfigMap can be created, as a dry run, without the webhook through %s", strings.Join(through, ", "))
}

// webhookServer is the webhook itself.
type webhookServer struct {
	*http.Server
	address   net.IP
	port      int
	authority []byte // PEM
	asked     atomic.Int64
	allowing  chan struct{} // closed once it allows
	allow     func()        // closes allowing, once
}

func (s *webhookServer) close() { _ = s.Server.Close() }
