package remote

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/holdfast-ha/holdfast/clusters"
	"github.com/holdfast-ha/holdfast/clusters/internal/await"
	"github.com/holdfast-ha/holdfast/framework"
)

// controlPlaneLabel marks the Nodes of control planes (kubeadm, RKE2, k3s, Talos).
const controlPlaneLabel = "node-role.kubernetes.io/control-plane"

// Discover returns an inventory of the cluster of a kubeconfig, as far as the API contains it.
// user is the SSH user of the nodes; empty for no SSH.
func Discover(ctx context.Context, name, kubeconfig, kubeContext, user string) (*clusters.Inventory, error) {
	config, err := load(kubeconfig, kubeContext, "with --kubeconfig")
	if err != nil {
		return nil, err
	}
	e := framework.Entrance{Name: config.Host, Kind: "server", Config: config}
	var nodes corev1.NodeList
	if err := getInto(ctx, e, "/api/v1/nodes?labelSelector="+url.QueryEscape(controlPlaneLabel), &nodes); err != nil {
		return nil, fmt.Errorf("failed to list the control-plane nodes: %w", err)
	}
	var listed discoveryv1.EndpointSliceList
	if err := getInto(ctx, e, "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices?labelSelector="+url.QueryEscape(discoveryv1.LabelServiceName+"=kubernetes"), &listed); err != nil {
		return nil, fmt.Errorf("failed to list the API servers: %w", err)
	}
	i := &clusters.Inventory{APIVersion: clusters.APIVersion, Kind: clusters.InventoryKind, Metadata: clusters.Metadata{Name: name},
		Spec: clusters.InventorySpec{Kubeconfig: kubeconfig, Context: kubeContext}}
	ports := map[string]int32{}
	for _, s := range listed.Items {
		for _, p := range s.Ports {
			for _, endpoint := range s.Endpoints {
				ports[endpoint.Addresses[0]] = *p.Port
			}
		}
	}
	for _, item := range nodes.Items {
		n := clusters.InventoryNode{Name: item.Name, Zone: item.Labels[corev1.LabelTopologyZone]}
		for _, a := range item.Status.Addresses {
			if addr, err := netip.ParseAddr(a.Address); err == nil && a.Type == corev1.NodeInternalIP && !n.Address.IsValid() {
				n.Address = addr
			}
		}
		i.Spec.Nodes = append(i.Spec.Nodes, n.On(ports[n.Address.String()]))
		delete(ports, n.Address.String())
	}
	// API servers whose machines are not Nodes (k0s).
	for ip, port := range ports {
		if addr, err := netip.ParseAddr(ip); err == nil {
			i.Spec.Nodes = append(i.Spec.Nodes, clusters.InventoryNode{Name: "node-" + dashed.Replace(ip), Address: addr}.On(port))
		}
	}
	if len(i.Spec.Nodes) == 0 {
		return nil, errors.New("the API lists no control-plane nodes and no API servers: write the inventory by hand")
	}
	pods, err := (&access{Inventory: i, entrances: []framework.Entrance{e}}).pods(ctx)
	if err != nil {
		return nil, err
	}
	i.Spec.Nodes = append(i.Spec.Nodes, etcdHosts(ctx, pods.etcdServers(), i.Spec.Nodes)...)
	for j := range i.Spec.Nodes {
		if n := &i.Spec.Nodes[j]; user != "" {
			n.SSH = user + "@" + n.Address.String()
		}
	}
	return i, nil
}

// etcdHosts returns the hosts of an external etcd: those of URLs of the API servers that are not
// addresses of nodes. Their host names are not known, only those of the URLs.
func etcdHosts(ctx context.Context, urls []string, nodes []clusters.InventoryNode) (hosts []clusters.InventoryNode) {
	for _, text := range urls {
		u, err := url.Parse(text)
		if err != nil {
			continue
		}
		name := strings.ToLower(u.Hostname())
		addr, err := netip.ParseAddr(name)
		if err == nil {
			name = "etcd-" + dashed.Replace(name)
		} else if all, err := net.DefaultResolver.LookupNetIP(ctx, "ip", name); err == nil && len(all) > 0 {
			addr = all[0].Unmap()
		}
		known := func(n clusters.InventoryNode) bool { return n.Address == addr || n.Name == name }
		if addr.IsValid() && !addr.IsLoopback() && !slices.ContainsFunc(nodes, known) && !slices.ContainsFunc(hosts, known) {
			hosts = append(hosts, clusters.InventoryNode{Name: name, Address: addr, Roles: []clusters.Role{clusters.RoleEtcd}})
		}
	}
	return hosts
}

// dashed makes a part of a name of an address.
var dashed = strings.NewReplacer(".", "-", ":", "-")

// ConsentCheck is the name of the check for the owner's consent.
const ConsentCheck = "consent"

// Check is the result for one item of an inventory.
type Check struct {
	What    string `json:"what"`
	Problem string `json:"problem,omitempty"`
	Found   string `json:"found,omitempty"`
}

// Examine tries every item of an inventory: each entrance, and each node over SSH. It changes
// nothing.
func Examine(ctx context.Context, i *clusters.Inventory) []Check {
	a, err := reach(i)
	if err != nil {
		return []Check{{What: "kubeconfig", Problem: err.Error()}}
	}
	var all []Check
	for _, e := range a.entrances {
		c := Check{What: "API server on " + e.Name + " (" + e.Config.Host + ")"}
		if e.Kind == framework.EntranceBalancer {
			c.What = "load balancer (" + e.Config.Host + ")"
		}
		if _, err := get(ctx, e, "/readyz"); err != nil {
			c.Problem = err.Error()
		} else {
			c.Found = "ready"
		}
		all = append(all, c)
	}
	if c, err := a.readConsent(ctx); err != nil {
		all = append(all, Check{What: ConsentCheck, Problem: err.Error()})
	} else {
		all = append(all, Check{What: ConsentCheck, Found: fmt.Sprintf("until %s, to %s", c.Expires.Format("2006-01-02 15:04 MST"), names(c.Levels))})
	}
	if !i.Reachable() {
		return all
	}
	ssh, done, err := shells(i)
	if err != nil {
		return append(all, Check{What: "ssh", Problem: err.Error()})
	}
	defer done()
	nodes, problem := a.nodes(ctx)
	before := map[string]*sight{}
	for _, n := range i.Spec.Nodes {
		c := Check{What: "node " + n.Name + " (ssh " + n.SSH + ")"}
		s, err := ssh[n.Name].lookFor(ctx, i.Spec.Distribution, n)
		if err == nil && problem == nil {
			err = leadsTo(n, s, nodes)
		}
		if err == nil {
			err = alone(n, s, before)
			before[n.Name] = s
		}
		var f *found
		if err == nil {
			f, err = detect(i.Spec.Distribution, n, s)
		}
		if err == nil {
			err = f.readConfig(ctx, ssh[n.Name])
		}
		if err != nil {
			c.Problem = err.Error()
		} else {
			c.Found = f.String()
		}
		all = append(all, c)
		if p := powerOf(n); p != nil {
			all = append(all, p.examine(ctx, s))
		}
	}
	if len(before) < len(i.Spec.Nodes) {
		return all
	}
	if err := a.onNode(ctx, before); errors.Is(err, ErrOnNode) {
		all = append(all, Check{What: "where holdfast runs", Found: err.Error()})
	}
	return all
}

// examine asks for the state of a node's power.
func (p *power) examine(ctx context.Context, s *sight) Check {
	c := Check{What: "power of " + p.Node, Found: "on"}
	on, err := p.status(ctx)
	switch {
	case err != nil:
		c.Problem = err.Error()
	case !on && s != nil:
		c.Problem = "its status command reports off, but the node answers: do the commands belong to another machine?"
	case !on:
		c.Problem = "off"
	case s != nil && !s.systemd:
		c.Found = "on; it stays on, since the node does not run systemd, which would start the agent again"
	}
	return c
}

// String describes how a node runs its components.
func (f *found) String() string {
	var missing, there []string
	for _, c := range f.profile.Components {
		if _, ok := f.processes[c.Name]; ok {
			there = append(there, string(c.Name))
		} else {
			missing = append(missing, string(c.Name))
		}
	}
	text := "distribution " + f.profile.Name + ": " + strings.Join(there, ", ")
	if group := f.Group(framework.APIServer); len(group) == len(there) {
		text += " (one process)"
	} else if len(group) > 0 {
		text += fmt.Sprintf(" (%d in one process)", len(group))
	}
	if len(missing) > 0 {
		text += "; not found: " + strings.Join(missing, ", ")
	}
	return text
}

// anyOf lists levels as alternatives.
func anyOf(levels []Level) string {
	all := string(levels[0])
	for _, l := range levels[1 : len(levels)-1] {
		all += ", " + string(l)
	}
	return all + " or " + string(levels[len(levels)-1])
}

// names lists levels; all of them include read-only.
func names(levels []Level) string {
	all := []string{string(ReadOnly)}
	for _, l := range levels {
		if l != ReadOnly {
			all = append(all, string(l))
		}
	}
	return strings.Join(all, ", ")
}

// notFound reports whether an error is that of an object that does not exist.
func notFound(err error) bool {
	status := (await.StatusError{})
	return errors.As(err, &status) && status.Code == http.StatusNotFound
}
