package fault

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/record"
	"github.com/holdfast-ha/holdfast/framework/workload/client"
)

const (
	// overloadUser is the client: an ordinary user, since administrators are
	// exempt from priority and fairness.
	overloadUser = "holdfast-overload"
	// overloadPath is what the clients list: some hundred KiB in any cluster, which the API
	// server has to encode and, as requested, to compress.
	overloadPath = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
	rbacPath     = "/apis/rbac.authorization.k8s.io/v1/"
	levelHeader  = "X-Kubernetes-Pf-Prioritylevel-Uid"
)

// Overload sends an API server more requests than it can handle.
var Overload = &Fault{
	Name:    "overload",
	Summary: "lists all ClusterRoles through an API server, repeatedly and from many clients at the same time, as an ordinary user who is subject to API Priority and Fairness",
	Targets: []string{"apiserver"},
	Params: []Param{
		intParam("concurrency", "number of concurrent requests", 600, 1, 5000),
		intParam("rate", "maximum requests per second, in total", 0, 1, 100_000).unless("no limit"),
	},
	Needs:   []string{"an entrance to the API server; EtcdAccess, to delete the user's role if no API server answers", promiserNeed},
	Example: "apiserver/any concurrency=600",
	Effects: does(record.EffectLoad),
	Prepare: func(r Request) (Inject, error) {
		o := &crowd{cluster: r.Cluster, name: "holdfast-overload-" + strconv.FormatInt(time.Now().UnixNano(), 36),
			concurrency: Value[int](r, "concurrency"), rate: Value[int](r, "rate")}
		var err error
		o.entrance, err = r.apiServer()
		return func(ctx context.Context) (Injection, error) { return o.inject(ctx, r) }, err
	},
	Promised: true, // the clients exit with their process
}

// crowd is a user with many clients.
type crowd struct {
	cluster     framework.Cluster
	entrance    framework.Entrance
	name        string // of role and binding
	concurrency int
	rate        int // 0 for no limit
	level       string
	before      levelState

	client *http.Client
	hangUp func() // closes idle connections
	answer sync.WaitGroup
	stop   context.CancelFunc
	// Responses so far.
	served, rejected atomic.Int64
}

func (o *crowd) inject(ctx context.Context, r Request) (Injection, error) {
	t := r.Target
	if err := o.connect(); err != nil {
		return nil, r.beforeFault(err)
	}
	defer o.hangUp() // connections in use are not idle
	var err error
	if o.level, err = o.findLevel(ctx); err != nil {
		return nil, r.beforeFault(fmt.Errorf("failed to find the priority level of user %s: %w", overloadUser, err))
	}
	if o.before, err = o.state(ctx); err != nil {
		return nil, r.beforeFault(err)
	}
	if o.before.waiting > 0 {
		return notInjected(t, "requests of priority level %s were already waiting: %s", o.level, o.before), nil
	}
	running, stop := context.WithTimeout(context.WithoutCancel(ctx), r.TTL)
	o.stop = stop
	return attempt{
		target: t,
		what:   "overloading " + t.String(),
		ask: func(ctx context.Context) error {
			if err := o.grant(ctx); err != nil {
				return err
			}
			o.run(running)
			return nil
		},
		effect:   o.queued,
		patience: healLimit / 2, // the API server that it asks is overloaded
		undo:     o.end,
		healed:   o.drained,
	}.promised(r, framework.Undoing{Delete: []string{registry + "clusterrolebindings/" + o.name, registry + "clusterroles/" + o.name}}).stored(r).injection(ctx)
}

// connect creates the client: with the user's name and with connections that no other traffic
// shares.
func (o *crowd) connect() error {
	config := rest.CopyConfig(o.entrance.Config)
	config.Impersonate = rest.ImpersonationConfig{UserName: overloadUser}
	tls, err := rest.TLSConfigFor(config)
	if err != nil {
		return err
	}
	// An HTTP/2 connection on which a request was just cancelled is not idle yet when the others are
	// closed.
	own := &http.Transport{Proxy: config.Proxy, DialContext: client.Dialer(config, tryLimit), TLSClientConfig: tls,
		ForceAttemptHTTP2: true, MaxIdleConnsPerHost: 100, IdleConnTimeout: 2 * time.Second}
	rt, err := rest.HTTPWrappersForConfig(config, own)
	o.client, o.hangUp = &http.Client{Transport: rt, Timeout: healLimit}, own.CloseIdleConnections
	return err
}

// ask lists once, and discards the response.
func (o *crowd) ask(ctx context.Context) (*http.Response, error) {
	base, _, err := rest.DefaultServerUrlFor(o.entrance.Config)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, base.JoinPath(overloadPath).String(), nil)
	if err != nil {
		return nil, err
	}
	// Set explicitly, so that only the server compresses.
	req.Header.Set("Accept", "application/json")
	req.Header.Set("Accept-Encoding", "gzip")
	resp, err := o.client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	return resp, err
}

// findLevel returns the priority level of the user's requests.
func (o *crowd) findLevel(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, moveLimit)
	defer cancel()
	resp, err := o.ask(ctx)
	if err != nil {
		return "", err
	}
	uid := resp.Header.Get(levelHeader)
	body, err := throughAny(ctx, o.cluster, http.MethodGet, "/apis/flowcontrol.apiserver.k8s.io/v1/prioritylevelconfigurations", nil)
	if err != nil {
		return "", err
	}
	var levels flowcontrolv1.PriorityLevelConfigurationList
	if err := json.Unmarshal(body, &levels); err != nil {
		return "", err
	}
	for _, l := range levels.Items {
		if string(l.UID) == uid && uid != "" {
			if l.Spec.Type == flowcontrolv1.PriorityLevelEnablementExempt {
				return "", fmt.Errorf("it is %s, which is exempt: the user's requests would displace those of all other users", l.Name)
			}
			return l.Name, nil
		}
	}
	return "", fmt.Errorf("the API server's response names priority level %q, which is not one of %d", uid, len(levels.Items))
}

// grant lets the user list.
func (o *crowd) grant(ctx context.Context) error {
	role := &rbacv1.ClusterRole{TypeMeta: metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: "ClusterRole"}, ObjectMeta: metav1.ObjectMeta{Name: o.name},
		Rules: []rbacv1.PolicyRule{{APIGroups: []string{rbacv1.GroupName}, Resources: []string{"clusterroles"}, Verbs: []string{"list"}}}}
	binding := &rbacv1.ClusterRoleBinding{TypeMeta: metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: "ClusterRoleBinding"}, ObjectMeta: metav1.ObjectMeta{Name: o.name},
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: o.name},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: overloadUser}}}
	for resource, object := range map[string]any{"clusterroles": role, "clusterrolebindings": binding} {
		body, err := json.Marshal(object)
		if err == nil {
			_, err = throughAny(ctx, o.cluster, http.MethodPost, rbacPath+resource, body)
		}
		if err != nil {
			return fmt.Errorf("failed to make %s %s: %w", resource, o.name, err)
		}
	}
	return nil
}

// run starts the clients.
func (o *crowd) run(ctx context.Context) {
	var ticks <-chan time.Time
	if o.rate > 0 {
		ticker := time.NewTicker(time.Second / time.Duration(o.rate))
		context.AfterFunc(ctx, ticker.Stop)
		ticks = ticker.C
	}
	for range o.concurrency {
		o.answer.Go(func() {
			for ctx.Err() == nil {
				if ticks != nil {
					select {
					case <-ticks:
					case <-ctx.Done():
						return
					}
				}
				resp, err := o.ask(ctx)
				switch {
				case err == nil && resp.StatusCode == http.StatusOK:
					o.served.Add(1)
					continue
				case err == nil && resp.StatusCode == http.StatusTooManyRequests:
					o.rejected.Add(1)
				}
				// A server that refuses must not be asked without a pause: otherwise the clients
				// would be overloaded.
				client.Pause(ctx, longestPause)
			}
		})
	}
}

// end stops the clients and removes the user's role.
func (o *crowd) end(ctx context.Context) error {
	o.stop()
	o.answer.Wait()
	o.hangUp()
	return errors.Join(
		remove(ctx, o.cluster, rbacPath+"clusterrolebindings/"+o.name, "clusterrolebindings/"+o.name),
		remove(ctx, o.cluster, rbacPath+"clusterroles/"+o.name, "clusterroles/"+o.name))
}

// queued checks whether requests of the user's level wait or are refused.
func (o *crowd) queued(ctx context.Context) (bool, string) {
	now, err := o.state(ctx)
	if err != nil {
		return false, err.Error()
	}
	grew := now.dispatched > o.before.dispatched
	return grew && (now.waiting > 0 || now.refused > o.before.refused),
		fmt.Sprintf("%s; %s before; the clients received %d responses and %d refusals (429)", now, o.before, o.served.Load(), o.rejected.Load())
}

// drained checks whether no request waits any more.
func (o *crowd) drained(ctx context.Context) (bool, string) {
	up, said := ready(ctx, o.entrance)
	if !up {
		return false, said
	}
	now, err := o.state(ctx)
	if err != nil {
		return false, err.Error()
	}
	return now.waiting == 0 && now.executing == 0, now.String() + "; " + said
}
