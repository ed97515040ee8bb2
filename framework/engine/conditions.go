package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/observe"
	"github.com/holdfast-ha/holdfast/framework/record"
	"github.com/holdfast-ha/holdfast/framework/workload"
	"github.com/holdfast-ha/holdfast/framework/workload/client"
)

// condition is what a step of a timeline may wait for.
type condition struct {
	// look checks once and returns what is missing; nil for conditions that await waits for in
	// another way. fault is the injection that the condition is about.
	look       func(ctx context.Context, r *run, fault string) error
	aboutFault bool
	// typical is a formula for the typical wait, counted from the injection or healing that the
	// condition is about, or else from its step. Without one it is assumed to hold after half of
	// the time limit.
	typical string
}

const (
	steady         = "steady"
	endpointsExact = "endpoints-exact"
	// applicationConverged needs the results of earlier checks: see convergence.
	applicationConverged = "application-converged"
)

// conditions returns the conditions that a scenario may wait for.
func conditions() map[string]condition {
	isListed := func(want bool) func(context.Context, *run, string) error {
		return func(ctx context.Context, r *run, fault string) error {
			addresses, err := r.faulted(fault)
			if err != nil {
				return err
			}
			return r.everywhere(ctx, func(ctx context.Context, api *client.API) error { return checkListed(ctx, api, addresses, want) })
		}
	}
	return map[string]condition{
		// A lease that is not renewed expires up to T later, and the next reconciliation of
		// another API server drops the address.
		"endpoint-gone": {look: isListed(false), aboutFault: true, typical: "T"},
		// An API server lists itself when it starts.
		"endpoint-back": {look: isListed(true), aboutFault: true, typical: "0s"},
		"endpoints-complete": {look: func(ctx context.Context, r *run, _ string) error {
			want := r.unhitAddresses()
			return r.everywhere(ctx, func(ctx context.Context, api *client.API) error { return checkListed(ctx, api, want, true) })
		}, typical: "0s"},
		endpointsExact: {look: func(ctx context.Context, r *run, _ string) error {
			want := r.unhitAddresses()
			return r.everywhere(ctx, func(ctx context.Context, api *client.API) error { return checkExact(ctx, api, want) })
		}},
		// A standby counts L from when it saw the last renewal, and tries every P.
		"takeover": {look: func(ctx context.Context, r *run, fault string) error { return r.held(ctx, fault, true) }, aboutFault: true, typical: "L + P"},
		"active":   {look: func(ctx context.Context, r *run, fault string) error { return r.held(ctx, fault, false) }, aboutFault: true},
		// The next instance of each further component counts its own L.
		"leases-renewed": {look: func(_ context.Context, r *run, fault string) error { return r.furtherRenewed(fault) }, aboutFault: true, typical: "0s"},
		"lock-taken":     {look: func(ctx context.Context, r *run, fault string) error { return r.locksTaken(ctx, fault) }, aboutFault: true},
		// The controller manager that takes over starts counting the grace period then.
		"node-not-ready": {look: func(ctx context.Context, r *run, fault string) error { return r.notReady(ctx, fault) }, aboutFault: true, typical: "L + P + G + N"},
		// An election, and the requests that wait for it.
		"api-writable": {look: func(ctx context.Context, r *run, _ string) error { return r.everywhere(ctx, r.write) }, typical: "2E"},
		// Connections are half-open only after a power cut.
		"connected": {look: func(ctx context.Context, r *run, _ string) error { return r.halfOpen(ctx) }, typical: "0s"},
		steady:      {typical: "E"},
		// Controllers apply a change in a second or two.
		applicationConverged: {typical: "2E"},
	}
}

// Conditions returns the names of the conditions that a step may wait for:
//
//	endpoint-gone       no API server that is not hit lists the address of the
//	                    fault's node in default/kubernetes, Endpoints or EndpointSlice
//	endpoint-back       every API server that is not hit lists it in both
//	endpoints-complete  every API server that is not hit lists the address of
//	                    each of them in both
//	endpoints-exact     every API server that is not hit lists the addresses of all of
//	                    them, and no other, in both
//	takeover            the lease of the fault's component is held on another node;
//	                    where it hit no elected component: that of each of them
//	active              that lease is held on any node
//	leases-renewed      each additional lease that the description of the cluster names was
//	                    seen to be renewed since the fault
//	lock-taken          each component that a supervisor elects runs on another
//	                    node, which holds its lock
//	node-not-ready      the fault's nodes, as far as they are Nodes of the API, are not
//	                    ready
//	api-writable        every API server that is not hit acknowledges a write
//	connected           no TCP connection between control-plane nodes is half-open, that is,
//	                    known to one of them only, as after a power cut
//	steady              the control plane is healthy (see observe.SteadyState)
//	application-converged
//	                    each Deployment of the traffic's application was seen in its
//	                    desired state since the wait began, with its pods and its Service
//
// An API server is hit if a fault is active on its node.
func Conditions() []string { return sortedKeys(conditions()) }

const (
	conditionPause = 200 * time.Millisecond
	// requestLimit is how long one request of a condition may take.
	requestLimit = 3 * time.Second
)

var errNotFound = errors.New("the object does not exist")

func (r *run) until(ctx context.Context, u *Until) error {
	limit, err := duration(u.AtMost, r.cluster.Settings())
	if err != nil {
		return err
	}
	began := time.Now()
	held, why := r.await(ctx, u, limit)
	if held {
		r.say("%s after %s", u.Condition, time.Since(began).Round(10*time.Millisecond))
		return nil
	}
	if ctx.Err() == nil {
		r.say("not %s within %s: %s", u.Condition, limit, why)
	}
	return nil
}

// await waits for a condition; why says what was missing the last time.
func (r *run) await(ctx context.Context, u *Until, limit time.Duration) (held bool, why string) {
	if u.Condition == steady {
		s := observe.SteadyState(ctx, r.cluster, limit)
		return s.OK, listed(s.Problems)
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	look := func(ctx context.Context) error { return r.condition(ctx, u) }
	if u.Condition == applicationConverged {
		if r.traffic == nil {
			return false, errNoTraffic.Error()
		}
		look = convergence(r.traffic.Application)
	}
	if err := client.Until(ctx, conditionPause, look); err != nil {
		return false, err.Error()
	}
	return true, ""
}

// condition checks once and returns what is missing.
func (r *run) condition(ctx context.Context, u *Until) error {
	ctx, cancel := context.WithTimeout(ctx, requestLimit)
	defer cancel()
	known := conditions()[u.Condition]
	if known.look == nil {
		return fmt.Errorf("unknown condition %q", u.Condition)
	}
	return known.look(ctx, r, u.Fault)
}

func (r *run) injection(id string) (*activeFault, error) {
	for _, i := range r.injections {
		if i.step.ID == id {
			return i, nil
		}
	}
	return nil, fmt.Errorf("no injection is named %q (`as`)", id)
}

// faulted returns the addresses of the nodes that an injection hit.
func (r *run) faulted(id string) (addresses []string, err error) {
	i, err := r.injection(id)
	if err != nil {
		return nil, err
	}
	for _, n := range r.cluster.Nodes() {
		if slices.Contains(i.nodes(), n.Name()) {
			addresses = append(addresses, n.Address().String())
		}
	}
	if len(addresses) == 0 {
		return nil, fmt.Errorf("injection %s hit no node", id)
	}
	return addresses, nil
}

// hit returns the nodes on which a fault is active.
func (r *run) hit() (nodes []string) {
	for _, i := range r.unhealed() {
		nodes = append(nodes, i.nodes()...)
	}
	return nodes
}

// unhitAddresses returns the addresses of the nodes with an API server and without an active
// fault.
func (r *run) unhitAddresses() (addresses []string) {
	hit := r.hit()
	for _, n := range r.cluster.Nodes() {
		if slices.Contains(n.Components(), framework.APIServer) && !slices.Contains(hit, n.Name()) {
			addresses = append(addresses, n.Address().String())
		}
	}
	return addresses
}

// everywhere checks through every API server on whose node no fault is active.
func (r *run) everywhere(ctx context.Context, look func(context.Context, *client.API) error) error {
	hit := r.hit()
	g, ctx := errgroup.WithContext(ctx)
	asked := 0
	for _, e := range r.cluster.Entrances() {
		if e.Kind != framework.EntranceAPIServer || slices.Contains(hit, e.Node) {
			continue
		}
		asked++
		g.Go(func() error {
			api, err := r.api(e)
			if err == nil {
				err = look(ctx, api)
			}
			if err != nil {
				return fmt.Errorf("through %s: %w", e.Name, err)
			}
			return nil
		})
	}
	if asked == 0 {
		return fmt.Errorf("a fault is active on the node of every API server")
	}
	return g.Wait()
}

func (r *run) api(e framework.Entrance) (*client.API, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if api := r.apis[e.Name]; api != nil {
		return api, nil
	}
	api, err := client.NewAPI(e.Config, client.Options{})
	if err == nil {
		r.apis[e.Name] = api
	}
	return api, err
}

// listedAddresses returns the addresses in the two objects of the default kubernetes service.
func listedAddresses(ctx context.Context, api *client.API) (inEndpoints, inSlices []string, err error) {
	var endpoints struct {
		Subsets []struct{ Addresses []struct{ IP string } }
	}
	if err := get(ctx, api, "/api/v1/namespaces/default/endpoints/kubernetes", nil, &endpoints); err != nil {
		return nil, nil, err
	}
	for _, s := range endpoints.Subsets {
		for _, a := range s.Addresses {
			inEndpoints = append(inEndpoints, a.IP)
		}
	}
	var slicesOf discoveryv1.EndpointSliceList
	query := url.Values{"labelSelector": {"kubernetes.io/service-name=kubernetes"}}
	if err := get(ctx, api, "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices", query, &slicesOf); err != nil {
		return nil, nil, err
	}
	for _, s := range slicesOf.Items {
		for _, e := range s.Endpoints {
			inSlices = append(inSlices, e.Addresses...)
		}
	}
	return inEndpoints, inSlices, nil
}

// checkListed says how the two objects differ from listing each of the addresses, or
// none of them.
func checkListed(ctx context.Context, api *client.API, addresses []string, want bool) error {
	inEndpoints, inSlices, err := listedAddresses(ctx, api)
	if err != nil {
		return err
	}
	for _, a := range addresses {
		if slices.Contains(inEndpoints, a) != want || slices.Contains(inSlices, a) != want {
			until := "list"
			if !want {
				until = "no longer list"
			}
			return fmt.Errorf("the Endpoints list %v, EndpointSlices list %v; waiting until they %s %s", inEndpoints, inSlices, until, a)
		}
	}
	return nil
}

// checkExact says how they differ from listing exactly the addresses.
func checkExact(ctx context.Context, api *client.API, addresses []string) error {
	inEndpoints, inSlices, err := listedAddresses(ctx, api)
	if err != nil {
		return err
	}
	want := slices.Sorted(slices.Values(addresses))
	for _, has := range [][]string{inEndpoints, inSlices} {
		if !slices.Equal(slices.Sorted(slices.Values(has)), want) {
			return fmt.Errorf("the Endpoints list %v, EndpointSlices list %v; waiting for exactly %v", inEndpoints, inSlices, want)
		}
	}
	return nil
}

// checkNoOther says which of the two objects lists an address other than these.
func checkNoOther(ctx context.Context, api *client.API, addresses []string) error {
	inEndpoints, inSlices, err := listedAddresses(ctx, api)
	if err != nil {
		return err
	}
	if slices.ContainsFunc(slices.Concat(inEndpoints, inSlices), func(a string) bool { return !slices.Contains(addresses, a) }) {
		return fmt.Errorf("the Endpoints list %v, EndpointSlices list %v; the API servers have %v", inEndpoints, inSlices, addresses)
	}
	return nil
}

// written are the objects like the one that write writes.
const written = "/api/v1/namespaces/" + workload.DefaultNamespace + "/configmaps"

// write writes an object of its own, whether it exists or not.
func (r *run) write(ctx context.Context, api *client.API) error {
	body := fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"holdfast-writable"},"data":{"at":"%d"}}`, r.w.Now())
	a := api.Do(ctx, client.Request{
		Method: http.MethodPatch, Path: written + "/holdfast-writable",
		Query: url.Values{"fieldManager": {"holdfast"}, "force": {"true"}},
		Type:  "application/apply-patch+yaml", Body: []byte(body),
	})
	if a.Outcome() != record.OK {
		return fmt.Errorf("a write was not acknowledged: %s", a.Problem())
	}
	return nil
}

func get(ctx context.Context, api *client.API, path string, query url.Values, into any) error {
	a := api.Do(ctx, client.Request{Method: http.MethodGet, Path: path, Query: query})
	if a.Outcome() != record.OK && a.Reason() == "NotFound" {
		return fmt.Errorf("GET %s: %w (%s)", path, errNotFound, a.Problem())
	}
	if a.Outcome() != record.OK {
		return fmt.Errorf("GET %s: %s", path, a.Problem())
	}
	if err := json.Unmarshal(a.Body, into); err != nil {
		return fmt.Errorf("GET %s: %w", path, err)
	}
	return nil
}

// notReady checks whether the nodes that a fault hit are not ready, as far as they are
// Nodes of the API.
func (r *run) notReady(ctx context.Context, id string) error {
	i, err := r.injection(id)
	if err != nil {
		return err
	}
	return r.everywhere(ctx, func(ctx context.Context, api *client.API) error {
		for _, name := range i.nodes() {
			var node corev1.Node
			if err := get(ctx, api, "/api/v1/nodes/"+name, nil, &node); errors.Is(err, errNotFound) {
				continue
			} else if err != nil {
				return err
			}
			if slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
				return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
			}) {
				return fmt.Errorf("node %s is ready", name)
			}
		}
		return nil
	})
}
