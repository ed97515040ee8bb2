package fault

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast-ha/holdfast/framework"
)

// WebhookHang registers an admission webhook that does not answer.
var WebhookHang Fault = webhookHang{}

type webhookHang struct{}

const (
	webhooksPath = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
	webhooksKey  = "validatingwebhookconfigurations/"
	webhookName  = "hang.holdfast.dev" // as API servers put it into refusals
	// webhookProbe is the object that proofs create, as a dry run.
	webhookProbe = "holdfast-webhook-probe"
	// webhookGrace is how long the webhook answers after it was healed, for
	// an API server that has not heard of it.
	webhookGrace = time.Minute
)

func (webhookHang) Name() string { return "webhook-hang" }

func (webhookHang) Doc() Doc {
	return Doc{
		Summary: "registers a validating admission webhook, served by this process, that takes requests and does not answer them; healing makes it allow everything at once and takes it away",
		Targets: []string{"apiserver"},
		Params: map[string]string{
			"resources":     "what the webhook is asked about when it is created or changed: configmaps (default) or all",
			"namespace":     "only objects in this namespace; default every namespace",
			"timeout":       "how long API servers wait for it, in whole seconds from 1s to 30s; default 10s",
			"failurePolicy": "what API servers do then: Fail (default) refuses the request, Ignore allows it",
		},
		Needs:   []string{"an entrance; EtcdAccess to take it away where no API server answers", promiserNeed},
		Example: "apiserver/any timeout=2s failurePolicy=Fail",
	}
}

func (f webhookHang) Check(c framework.Cluster, t Target, p Params) error {
	_, err := f.webhook(c, t, p)
	return err
}

// hangingWebhook is a webhook and what is registered of it.
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

func (f webhookHang) webhook(c framework.Cluster, t Target, p Params) (*hangingWebhook, error) {
	if err := checkParams(f, p); err != nil {
		return nil, err
	}
	if t.Component != framework.APIServer {
		return nil, fmt.Errorf("fault webhook-hang: target %s is not an API server: it takes one, such as apiserver/any, through which the effect is proven", t.Asked)
	}
	if _, _, err := componentHolder(f, c, t); err != nil {
		return nil, err
	}
	if err := keepable(f, c, false); err != nil {
		return nil, err
	}
	w := &hangingWebhook{cluster: c}
	var err error
	if w.node, err = node(c, t); err != nil {
		return nil, err
	}
	var ok bool
	if w.entrance, ok = entranceOf(c, t.Node, framework.APIServer); !ok {
		return nil, fmt.Errorf("fault webhook-hang: cluster %s names no entrance to the API server on %s", c.Name(), t.Node)
	}
	if w.timeout, err = durationParam(f, p, "timeout", 10*time.Second, time.Second, 30*time.Second); err != nil {
		return nil, err
	}
	if w.timeout%time.Second != 0 {
		return nil, badParam(f, p, "timeout", "whole seconds")
	}
	if p.TTL <= w.timeout {
		return nil, fmt.Errorf("fault webhook-hang: time to live %s: it must be longer than timeout=%s, which is what the proof of effect takes", p.TTL, w.timeout)
	}
	resources, err := choiceParam(f, p, "resources", "configmaps", "all")
	if err != nil {
		return nil, err
	}
	w.rule = admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"configmaps"}}
	if resources == "all" {
		w.rule = admissionregistrationv1.Rule{APIGroups: []string{"*"}, APIVersions: []string{"*"}, Resources: []string{"*/*"}}
	}
	policy, err := choiceParam(f, p, "failurePolicy", string(admissionregistrationv1.Fail), string(admissionregistrationv1.Ignore))
	w.policy = admissionregistrationv1.FailurePolicyType(policy)
	if w.space = p.Values["namespace"]; !nodeName(w.space) {
		return nil, badParam(f, p, "namespace", "the name of a namespace")
	}
	return w, err
}

func (f webhookHang) Inject(ctx context.Context, c framework.Cluster, t Target, p Params) (Injection, error) {
	w, err := f.webhook(c, t, p)
	if err != nil {
		return nil, err
	}
	if err := w.create(ctx); err != nil && strings.Contains(err.Error(), webhookName) {
		return notInjected(t, "a webhook hangs already: %v", err), nil
	} else if err != nil {
		return nil, fmt.Errorf("fault webhook-hang: creating a ConfigMap, as a dry run, through entrance %s before the fault: %w", w.entrance.Name, err)
	}
	// API servers reach this process where it would send from to reach them.
	route, err := net.Dial("udp", net.JoinHostPort(w.node.Address().String(), "6443"))
	if err != nil {
		return nil, fmt.Errorf("fault webhook-hang: finding an address of this process that node %s reaches: %w", t.Node, err)
	}
	address := route.LocalAddr().(*net.UDPAddr).IP
	_ = route.Close()
	if w.server, err = startWebhook(address); err != nil {
		return nil, fmt.Errorf("fault webhook-hang: %w", err)
	}
	w.name = "holdfast-webhook-hang-" + strconv.Itoa(w.server.port)
	return attempt{
		target:   t,
		what:     "registering a webhook that hangs",
		ask:      w.register,
		effect:   w.hangs,
		patience: w.timeout + healLimit/2,
		undo:     w.takeAway,
		healed:   w.gone,
		ttl:      p.TTL,
	}.promised(c, undoing(f, w.name)).injection(ctx)
}

// undoData implements undoer. The webhook itself has ended with its process.
func (webhookHang) undoData(ctx context.Context, c framework.Cluster, data json.RawMessage) error {
	var name string
	if err := json.Unmarshal(data, &name); err != nil {
		return err
	}
	return remove(ctx, c, webhooksPath+"/"+name, webhooksKey+name)
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

// create makes an object that the webhook is asked about, as a dry run. It
// waits for longer than the webhook's timeout.
func (w *hangingWebhook) create(ctx context.Context) error {
	return w.createThrough(ctx, w.entrance)
}

func (w *hangingWebhook) createThrough(ctx context.Context, e framework.Entrance) error {
	space := w.space
	if space == "" {
		space = metav1.NamespaceDefault
	}
	body, err := json.Marshal(&corev1.ConfigMap{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}, ObjectMeta: metav1.ObjectMeta{Name: webhookProbe}})
	if err != nil {
		return err
	}
	answer, status, err := sendFor(ctx, w.timeout+tryLimit, e, http.MethodPost, "/api/v1/namespaces/"+space+"/configmaps?dryRun=All", body)
	if err == nil && status/100 != 2 {
		err = &refusedError{status, string(answer)}
	}
	return err
}

// hangs looks whether a request waited for the webhook until it timed out.
func (w *hangingWebhook) hangs(ctx context.Context) (bool, string) {
	asked, began := w.server.asked.Load(), time.Now()
	err := w.create(ctx)
	took := time.Since(began).Round(time.Millisecond)
	seen := fmt.Sprintf("a ConfigMap was created, as a dry run, through entrance %s after %s", w.entrance.Name, took)
	if err != nil {
		seen = fmt.Sprintf("creating a ConfigMap, as a dry run, through entrance %s, after %s: %v", w.entrance.Name, took, err)
	}
	if w.server.asked.Load() == asked {
		return false, seen + "; the webhook was not asked"
	}
	refused := err != nil && strings.Contains(err.Error(), webhookName)
	waited := took >= w.timeout && (refused || err == nil && w.policy == admissionregistrationv1.Ignore)
	return waited, seen
}

func (w *hangingWebhook) takeAway(ctx context.Context) error {
	// First the server: what waits for it goes on, whether or not the
	// registration can be taken away.
	w.server.allow()
	if err := remove(ctx, w.cluster, webhooksPath+"/"+w.name, webhooksKey+w.name); err != nil {
		return err
	}
	time.AfterFunc(webhookGrace, w.server.close)
	return nil
}

// gone looks whether requests through every API server that is ready pass
// without the webhook.
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
		if err := w.createThrough(ctx, e); err != nil {
			return false, fmt.Sprintf("creating a ConfigMap, as a dry run, through entrance %s: %v", e.Name, err)
		}
		if w.server.asked.Load() != asked {
			return false, fmt.Sprintf("the webhook is still asked, by %s or another API server", e.Name)
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
	open      atomic.Bool
}

func (s *webhookServer) allow() {
	if s.open.CompareAndSwap(false, true) {
		close(s.allowing)
	}
}

func (s *webhookServer) close() { _ = s.Server.Close() }
