package observe

import (
	"bytes"
	"context"
	"encoding/json"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/record"
)

// auditRetry is the pause before an audit log that cannot be read is retried.
const auditRetry = time.Second

// auditHeard is how often it is recorded that an audit log had any entry.
const auditHeard = time.Second

// actions follows the audit log of each API server, if its node provides it, and records what
// elected components and add-on managers change, and when elected ones read their leases.
func (o *Observers) actions(context.Context) ([]func(context.Context), error) {
	nodes := o.nodes()
	components := elected()
	if slices.ContainsFunc(nodes, func(n framework.Node) bool { return slices.Contains(n.Components(), framework.AddonManager) }) {
		components = append(components, string(framework.AddonManager))
	}
	var loops []func(context.Context)
	for _, n := range nodes {
		reader, ok := n.(framework.AuditReader)
		if !ok || framework.EtcdAlone(n) {
			continue
		}
		f := newAuditFilter(n.Name(), nodes, components)
		f.current = o.cfg.Cluster.Nodes
		loops = append(loops, o.while(n.Name(), func(ctx context.Context) {
			// If the log cannot be read, the record has no actions, and the judges conclude
			// accordingly.
			heard := record.Nanos(0)
			every(ctx, auditRetry, func() {
				_ = reader.FollowAudit(ctx, func(entry []byte) {
					if now := o.w.Now(); heard == 0 || now-heard >= record.Nanos(auditHeard) {
						heard = now
						_ = o.w.Append(record.KindAction, record.Action{Via: n.Name(), Received: now, Completed: now})
					}
					if a, ok := f.action(entry, o.w.Since); ok {
						_ = o.w.Append(record.KindAction, a)
					}
				})
			})
		}))
	}
	return loops, nil
}

// auditFilter finds the actions in the audit log of one API server.
type auditFilter struct {
	via        string
	components []string
	nodes      map[netip.Addr]string
	// current returns the nodes of the cluster as they are, also those that have joined; may be nil.
	current func() []framework.Node
	// needles are strings in entries of the components, and reads are strings in entries of
	// requests that change nothing and are not about one object. They save most of the decoding.
	needles, reads [][]byte
}

func newAuditFilter(via string, nodes []framework.Node, components []string) *auditFilter {
	f := &auditFilter{via: via, components: components, nodes: map[netip.Addr]string{}}
	f.learn(nodes)
	for _, c := range components {
		f.needles = append(f.needles, []byte(c))
	}
	for _, verb := range []string{"list", "watch"} {
		f.reads = append(f.reads, []byte(`"verb":"`+verb+`"`))
	}
	return f
}

// learn adds the addresses of nodes to those that are known. Entries about a node that has left may
// be read later.
func (f *auditFilter) learn(nodes []framework.Node) {
	for _, n := range nodes {
		f.nodes[n.Address().Unmap()] = n.Name()
	}
}

// auditEvent is the part of an audit.k8s.io/v1 Event that is read.
type auditEvent struct {
	Stage     string
	Verb      string
	User      struct{ Username string }
	SourceIPs []string
	UserAgent string
	ObjectRef struct {
		Resource, Namespace, Name, APIGroup, Subresource string
	}
	ResponseStatus           struct{ Code int }
	RequestReceivedTimestamp time.Time
	StageTimestamp           time.Time
}

// action returns the action that an entry reports, or the read of a component's own lease, if it
// does. since converts a wall time to the record's clock.
func (f *auditFilter) action(entry []byte, since func(time.Time) record.Nanos) (record.Action, bool) {
	in := func(part []byte) bool { return bytes.Contains(entry, part) }
	if !slices.ContainsFunc(f.needles, in) || slices.ContainsFunc(f.reads, in) {
		return record.Action{}, false
	}
	var e auditEvent
	if json.Unmarshal(entry, &e) != nil || e.Stage != "ResponseComplete" && e.Stage != "Panic" {
		return record.Action{}, false
	}
	i := slices.IndexFunc(f.components, e.isOf)
	if i < 0 {
		return record.Action{}, false
	}
	component := f.components[i]
	if !e.changes() && (e.Verb != "get" || !e.isElection(component)) {
		return record.Action{}, false
	}
	resource := e.ObjectRef.Resource
	if e.ObjectRef.APIGroup != "" {
		resource = e.ObjectRef.APIGroup + "/" + resource
	}
	return record.Action{
		Component: component, Node: f.node(e.SourceIPs), Via: f.via, Election: e.isElection(component),
		Verb: e.Verb, Resource: resource, Subresource: e.ObjectRef.Subresource, Namespace: e.ObjectRef.Namespace, Name: e.ObjectRef.Name,
		Code: e.ResponseStatus.Code, User: e.User.Username,
		Received: since(e.RequestReceivedTimestamp), Completed: since(e.StageTimestamp),
	}, true
}

// isOf reports whether a request is a component's. A component with accounts for its controllers
// (--use-service-account-credentials) uses many names, but its user agent always starts with that
// of its binary.
func (e auditEvent) isOf(component string) bool {
	return e.User.Username == "system:"+component || strings.HasPrefix(e.UserAgent, component+"/")
}

// changes reports whether a request can change anything. Reviews are created only to query the
// API server, and candidacies for a lease (coordinated leader election) only to be elected, also
// by standby instances.
func (e auditEvent) changes() bool {
	switch e.Verb {
	case "create", "update", "patch", "delete", "deletecollection":
	default:
		return false
	}
	return e.ObjectRef.Resource != "leasecandidates" && e.ObjectRef.APIGroup != "authentication.k8s.io" && e.ObjectRef.APIGroup != "authorization.k8s.io"
}

// isElection reports whether a request is about the component's own lease. A refused creation may
// have no name; client-go's elector has its own user agent.
func (e auditEvent) isElection(component string) bool {
	return e.ObjectRef.Resource == "leases" && (e.ObjectRef.Name == component || strings.HasSuffix(e.UserAgent, "/leader-election"))
}

// node returns the node that a request came from: the last address is that of the
// connection, those before it are only claimed.
func (f *auditFilter) node(ips []string) string {
	if len(ips) == 0 {
		return ""
	}
	ip, err := netip.ParseAddr(ips[len(ips)-1])
	if err != nil {
		return ""
	}
	if ip.IsLoopback() {
		return f.via
	}
	if f.current != nil {
		f.learn(f.current())
	}
	return f.nodes[ip.Unmap()]
}
