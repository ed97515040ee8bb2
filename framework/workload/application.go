package workload

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/record"
	"github.com/holdfast-ha/holdfast/framework/workload/client"
)

// ApplicationNamespace is where the application of the profile "application" runs.
const ApplicationNamespace = "holdfast-app"

// The parts of the application, modelled on the k8petstore that the guide to highly available
// clusters uses. All but the last are scaled all the time.
var (
	scaledParts = []string{"frontend", "store", "load"}
	stillPart   = "catalog"
	// servedParts have a Service.
	servedParts = map[string]bool{"frontend": true, "store": true, "catalog": true}
)

const (
	partLabel   = "holdfast.dev/part"   // the name of the Deployment
	servedLabel = "holdfast.dev/served" // on a Deployment with a Service

	stillReplicas = 3
	batchReplicas = 2
	// On real nodes a pod takes seconds, and they would fall further and further behind. So the
	// profile changes nothing while podsAhead pods are starting or stopping on them, and for as
	// long again, or while batchesAhead batches are. It does so at most once per patience anyway,
	// since those pods may never finish. Without a scheduler, at most podsUnbound pods wait for
	// it.
	podsAhead, batchesAhead, podsUnbound = 3, 1, 12
	patience                             = 10 * time.Second
	// scalePatience is the patience for each part that is scaled: a part that is scaled again
	// while its nodes are busy never reaches the state that was wanted.
	scalePatience = 30 * time.Second
	// grown is the age at which a batch, or a bare pod, is deleted.
	grown = 5 * time.Second
	// lostAfter is the time, in seconds, after which a pod leaves a node that is not ready. With
	// Kubernetes' default of 300 s, an experiment would end before it shows that a node was
	// considered lost.
	lostAfter = 2
)

var (
	deploymentKind = kind{"Deployment", "apps/v1", "deployments"}
	serviceKind    = kind{"Service", "v1", "services"}
)

// application is the profile of an application that is scaled up and down all the time: a front
// end, a store, a load generator, and a catalog that is never scaled. In addition, batches
// (Deployments) and bare pods come and go. One client does all of that through the first
// entrance, the balancer if there is one.
//
// Watches through each API server record the result. They include the nodes and their heartbeats,
// since pods depend on them.
type application struct {
	t        *Traffic
	settings ApplicationSettings
	*sightings
	pace     pace
	watching sync.WaitGroup
	end      context.CancelFunc // of the watches
}

func newApplication(t *Traffic) *application {
	return &application{t: t, settings: t.cfg.Application, sightings: &sightings{w: t.w}, end: func() {}}
}

// Application returns what each Deployment of the application, by name, is missing to be in its
// wanted state, including pods and Service, as the watches show it; empty if nothing is missing.
// It is nil without the profile application.
func (t *Traffic) Application() map[string]string {
	for _, p := range t.profiles {
		if a, ok := p.(*application); ok {
			return a.lacks()
		}
	}
	return nil
}

func (p *application) start() error {
	all := p.t.cfg.Cluster.Entrances()
	setup, cancel := context.WithTimeout(p.t.ctx, setupLimit)
	defer cancel()
	if err := p.awaitPlace(setup, all[0]); err != nil {
		return err
	}
	if err := EnsureNamespace(setup, all, ApplicationNamespace); err != nil {
		return err
	}
	if err := p.watch(all); err != nil {
		return err
	}
	limited, cancel := context.WithTimeout(p.t.ctx, p.settings.StartLimit)
	defer cancel()
	if err := p.deploy(limited, all[0]); err != nil {
		p.end()
		p.watching.Wait()
		p.takeDown(p.t.ctx)
		return err
	}
	for _, client := range []struct {
		name string
		run  func(*operator)
	}{{"scaler", p.scale}, {"batches", p.batches}, {"pods", p.pods}} {
		c, err := p.operator(all[0], client.name)
		if err != nil {
			return err
		}
		p.t.clients.Go(func() {
			defer c.close()
			client.run(c)
		})
	}
	return nil
}

// watch watches every kind through each API server or, if none can be reached directly, through
// the other entrances.
func (p *application) watch(entrances []framework.Entrance) error {
	if servers := apiServers(entrances); len(servers) > 0 {
		entrances = servers
	}
	ctx, end := context.WithCancel(p.t.ctx)
	p.end = end
	own := ownerLabel + "=" + p.t.suffix
	for _, e := range entrances {
		api, err := client.NewAPI(e.Config, client.Options{})
		if err != nil {
			return fmt.Errorf("failed to watch through %s: %w", e.Name, err)
		}
		context.AfterFunc(ctx, api.Close)
		for _, o := range []objectWatch{
			{kind: record.ObjectPod, path: podKind.path(ApplicationNamespace), label: own},
			{kind: record.ObjectDeployment, path: deploymentKind.path(ApplicationNamespace), label: own},
			{kind: record.ObjectSlice, path: "/apis/discovery.k8s.io/v1/namespaces/" + ApplicationNamespace + "/endpointslices", label: own},
			{kind: record.ObjectNode, path: "/api/v1/nodes"},
			{kind: record.ObjectHeartbeat, path: leaseKind.path("kube-node-lease")},
		} {
			o.sightings, o.api, o.via, o.timeout = p.sightings, api, e.Name, p.t.cfg.Timeout
			p.watching.Go(func() { o.run(ctx) })
		}
	}
	return nil
}

// operator is the client of the application; its operations are recorded.
type operator struct {
	*component
	n int // how many objects it has made
}

func (p *application) operator(e framework.Entrance, name string) (*operator, error) {
	r, err := newRegisters(e, p.t.w, name+"/"+e.Name, ApplicationNamespace, "", p.t.cfg.Timeout)
	if err != nil {
		return nil, err
	}
	return &operator{component: &component{registers: r, values: newValues(p.t.random(), name, 0), owner: p.t.suffix}}, nil
}

// ApplicationError is the error of Start if the application of the profile "application"
// did not come up in time.
type ApplicationError struct {
	Limit time.Duration
	Lacks string // what was missing last
}

func (e *ApplicationError) Error() string {
	return fmt.Sprintf("the application does not run after %s: %s", e.Limit, e.Lacks)
}

// deploy creates the parts of the application and waits until all of it runs: if it does not, the
// judges could not conclude anything later. It leaves what it created behind.
func (p *application) deploy(ctx context.Context, e framework.Entrance) error {
	c, err := p.operator(e, "deployer")
	if err != nil {
		return err
	}
	defer c.close()
	for _, part := range append([]string{stillPart}, scaledParts...) {
		replicas := stillReplicas
		if part != stillPart {
			replicas = 1 + c.random.IntN(p.settings.Replicas)
		}
		if !tryUntil(ctx, func() bool {
			if servedParts[part] && !there(c.makeService(ctx, p.name(part))) {
				return false
			}
			return there(c.makeDeployment(ctx, p.name(part), replicas, servedParts[part]))
		}) {
			return p.notRunning(ctx, fmt.Sprintf("%s could not be created through %s", part, e.Name))
		}
	}
	lacks := []string{}
	if !tryUntil(ctx, func() bool {
		lacks = p.lacking()
		return len(lacks) == 0 && len(p.of(record.ObjectPod, p.name(stillPart))) == stillReplicas
	}) {
		return p.notRunning(ctx, cmp.Or(strings.Join(lacks, "; "), "not all of its pods were seen"))
	}
	return nil
}

// notRunning returns the error of a deployment whose ctx ended: an ApplicationError on a timeout.
func (p *application) notRunning(ctx context.Context, lacks string) error {
	if cause := context.Cause(ctx); !errors.Is(cause, context.DeadlineExceeded) {
		return fmt.Errorf("failed to deploy the application: %w", cause)
	}
	return &ApplicationError{p.settings.StartLimit, lacks}
}

// there reports whether an object exists after its creation.
func there(op record.Op) bool {
	return op.Outcome == record.OK || strings.Contains(op.Error, "AlreadyExists")
}

// name is the name of a part in this traffic, which no earlier traffic used.
func (p *application) name(part string) string { return part + "-" + p.t.suffix }

// scale changes the number of pods of one part after another.
func (p *application) scale(c *operator) {
	last, at := map[string]int{}, map[string]time.Time{}
	p.t.loop(c.left, c.random, p.settings.Interval, func(ctx context.Context) {
		part := scaledParts[c.n%len(scaledParts)]
		c.n++
		if busy, _ := p.nodes(); (busy || p.upToWorkers(p.name(part))) && time.Since(at[part]) < scalePatience {
			return
		}
		at[part] = time.Now()
		replicas := 1 + c.random.IntN(p.settings.Replicas)
		if replicas == last[part] {
			replicas = 1 + replicas%p.settings.Replicas
		}
		last[part] = replicas
		c.scaleTo(ctx, p.name(part), replicas)
	})
}

// batches creates small Deployments, and deletes those that have been in their wanted state for
// long.
func (p *application) batches(c *operator) {
	made, last := map[string]time.Time{}, time.Now()
	p.t.loop(c.left, c.random, p.settings.BatchInterval, func(ctx context.Context) {
		coming := 0
		for name, at := range maps.Clone(made) {
			if p.upToWorkers(name) {
				coming++
			} else if time.Since(at) > grown && p.stands(name) && c.remove(ctx, deploymentKind, name).Outcome == record.OK {
				delete(made, name)
			}
		}
		if busy, _ := p.nodes(); (busy || coming >= batchesAhead) && time.Since(last) < patience {
			return
		}
		last = time.Now()
		c.n++
		name := p.name(fmt.Sprintf("batch-%d", c.n))
		if op := c.makeDeployment(ctx, name, batchReplicas, false); op.Outcome == record.OK {
			made[name] = time.Now()
		}
	})
}

// pods creates bare pods, and deletes those that have run for a while.
func (p *application) pods(c *operator) {
	made, last := map[string]time.Time{}, time.Now()
	p.t.loop(c.left, c.random, p.settings.PodInterval, func(ctx context.Context) {
		busy, unbound := p.nodes()
		if !busy && unbound < podsUnbound || time.Since(last) >= patience {
			last = time.Now()
			c.n++
			name := p.name(fmt.Sprintf("pod-%d", c.n))
			pod := map[string]any{"metadata": c.labelled(name, ""), "spec": podSpec()}
			if op := c.create(ctx, podKind, name, name, pod); op.Outcome == record.OK {
				made[name] = time.Now()
			}
		}
		for _, o := range p.of(record.ObjectPod, "") {
			if at, ok := made[o.Name]; ok && time.Since(at) > grown && o.Pod.Ready && c.remove(ctx, podKind, o.Name).Outcome == record.OK {
				delete(made, o.Name)
				return // one for each that comes
			}
		}
	})
}

// finish scales each part once more, so that the wanted state is known for certain, waits until
// everything is in it, and deletes the application.
func (p *application) finish(ctx context.Context) {
	limited, cancel := context.WithTimeout(ctx, p.t.final*2/3)
	defer cancel()
	var operators []*operator
	for _, e := range apiServers(p.t.cfg.Cluster.Entrances()) {
		if c, err := p.operator(e, "last-scaler"); err == nil {
			defer c.close()
			operators = append(operators, c)
		}
	}
	tries := 0
	for _, part := range scaledParts {
		replicas := 1 + p.t.random().IntN(p.settings.Replicas)
		tryUntil(limited, func() bool {
			if len(operators) == 0 {
				return true
			}
			tries++
			return operators[tries%len(operators)].scaleTo(limited, p.name(part), replicas).Outcome == record.OK
		})
	}
	unbound := func(o record.Object) bool { return o.Pod.Node == "" }
	tryUntil(limited, func() bool { return len(p.lacking()) == 0 && !slices.ContainsFunc(p.of(record.ObjectPod, ""), unbound) })
	p.end()
	p.watching.Wait()
	p.takeDown(ctx)
}

// pace lets nodes rest for as long as they were busy: constant load on a machine's processors
// slows down the control plane.
type pace struct {
	mu          sync.Mutex
	since, rest time.Time // when they became busy, and until when they rest afterwards
}

// busy reports whether the nodes are busy or resting.
func (p *pace) busy(much bool, now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case much && p.since.IsZero():
		p.since = now
	case !much && !p.since.IsZero():
		p.since, p.rest = time.Time{}, now.Add(now.Sub(p.since))
	}
	return much || now.Before(p.rest)
}

// nodes reports whether nodes have enough pods for now, and how many pods wait for a node.
func (p *application) nodes() (busy bool, unbound int) {
	onNodes := 0
	for _, o := range p.of(record.ObjectPod, "") {
		switch {
		case o.Pod.Node == "":
			unbound++
		case !o.Pod.Ready || o.Pod.Deleting:
			onNodes++
		}
	}
	return p.pace.busy(onNodes >= podsAhead, time.Now()), unbound
}

func (p *application) takeDown(ctx context.Context) {
	left := []kind{deploymentKind, podKind}
	for _, part := range append([]string{stillPart}, scaledParts...) {
		if servedParts[part] {
			left = append(left, kind{serviceKind.name, serviceKind.version, serviceKind.resource + "/" + p.name(part)})
		}
	}
	p.t.deleteOwn(ctx, ApplicationNamespace, left...)
}
