package keeper

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"

	"github.com/holdfast-ha/holdfast/clusters/internal/await"
	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/fault"
	"github.com/holdfast-ha/holdfast/framework/workload/client"
)

// Status is the state of a cluster now.
type Status struct {
	Name       string    `json:"name"`
	Started    time.Time `json:"started"`
	Server     string    `json:"server"` // for clients on this machine
	Kubeconfig string    `json:"kubeconfig"`
	Ready      bool      `json:"ready"`
	// Problems say what is wrong, as text; empty if nothing is.
	Problems  []string         `json:"problems"`
	Entrances []EntranceStatus `json:"entrances"`
	Hosts     []HostStatus     `json:"hosts"`
	Leases    []LeaseStatus    `json:"leases"`
	// Network is the kind of device that joins the machines.
	Network string `json:"network"`
	// Impairments is the number of active impairments of the network.
	Impairments int `json:"impairments"`
	// Faults are the active injections.
	Faults []fault.Entry `json:"faults"`
}

// EntranceStatus is the state of an entrance.
type EntranceStatus struct {
	Name  string `json:"name"`
	URL   string `json:"url"` // from where the cluster runs
	Ready bool   `json:"ready"`
	Error string `json:"error,omitempty"`
}

// HostStatus is the state of a machine.
type HostStatus struct {
	Name       string              `json:"name"`
	Address    string              `json:"address"`
	Powered    bool                `json:"powered"`
	PID        int                 `json:"pid,omitempty"` // in the sandbox; local only
	Dir        string              `json:"dir"`           // its disk, as the sandbox sees it; local only
	Components []framework.Process `json:"components"`
	Versions   map[string]string   `json:"versions,omitempty"`
	Etcd       *EtcdStatus         `json:"etcd,omitempty"`
	Error      string              `json:"error,omitempty"`
}

// EtcdStatus is the state of a node's etcd member.
type EtcdStatus struct {
	Leader   bool   `json:"leader"`
	Term     uint64 `json:"term"`
	Revision int64  `json:"revision"`
	Error    string `json:"error,omitempty"`
}

// LeaseStatus is the holder of an elected component's lease, or the node on which it runs if a
// supervisor elects it.
type LeaseStatus struct {
	Component framework.Component `json:"component"`
	Holder    string              `json:"holder"`
	Error     string              `json:"error,omitempty"`
}

// Look queries all parts of a cluster concurrently. Parts that do not answer within ctx are
// reported as such.
func Look(ctx context.Context, c framework.Cluster, k Kept) Status {
	entrances := c.Entrances()
	status := Status{Name: c.Name(), Entrances: make([]EntranceStatus, len(entrances))}
	status.Network, status.Impairments = k.NetworkState()
	elected := []framework.Component{framework.ControllerManager, framework.Scheduler}
	status.Leases = make([]LeaseStatus, len(elected))
	var locks map[framework.Component]string
	if reporter, ok := c.(framework.LockReporter); ok {
		locks = reporter.Locks()
	}
	nodes := c.Nodes()
	members := make([]*EtcdStatus, len(nodes))

	var wg sync.WaitGroup
	for i, e := range entrances {
		wg.Go(func() {
			st := EntranceStatus{Name: e.Name, URL: e.Config.Host}
			if err := askOnce(ctx, e, "/readyz"); err != nil {
				st.Error = words(err)
			}
			st.Ready = st.Error == ""
			status.Entrances[i] = st
		})
	}
	wg.Go(func() { status.Hosts = k.Hosts(ctx) })
	if etcd, ok := c.(framework.EtcdAccess); ok {
		for i, n := range nodes {
			wg.Go(func() { members[i] = etcdStatus(ctx, etcd, n.Name()) })
		}
	}
	for i, name := range elected {
		if locks[name] == "" && len(entrances) > 0 {
			wg.Go(func() { status.Leases[i] = leaseStatus(ctx, entrances[0], name) })
		}
	}
	wg.Wait()
	versions := c.Versions()
	for i := range status.Hosts {
		h := &status.Hosts[i]
		for component, v := range versions[h.Name] {
			if h.Versions == nil {
				h.Versions = map[string]string{}
			}
			h.Versions[string(component)] = v
		}
		if at := slices.IndexFunc(nodes, func(n framework.Node) bool { return n.Name() == h.Name }); at >= 0 {
			h.Etcd = members[at]
		}
	}
	for i, name := range elected {
		if locks[name] != "" {
			status.Leases[i] = LeaseStatus{Component: name, Holder: activeOf(name, status.Hosts)}
		}
	}
	status.judge()
	return status
}

// judge returns what is wrong. A cluster is ready if each API server and the balancer report
// ready, and a majority of the etcd members answers: an API server that has just lost the
// majority still reports ready.
func (s *Status) judge() {
	s.Ready, s.Problems = true, []string{}
	members, answer := 0, 0
	for _, h := range s.Hosts {
		if !h.Powered {
			s.Problems = append(s.Problems, h.Name+" is powered off")
		}
		for _, p := range h.Components {
			if p.PID == 0 && h.Powered && !p.Standby {
				s.Problems = append(s.Problems, fmt.Sprintf("%s on %s is down", p.Component, h.Name))
			}
		}
		if h.Etcd != nil {
			members++
			if h.Etcd.Error == "" {
				answer++
			}
		}
	}
	if members > 0 && answer < members/2+1 {
		s.Ready = false
		s.Problems = append(s.Problems, fmt.Sprintf("etcd has no quorum: %d of %d members answer", answer, members))
	}
	for _, e := range s.Entrances {
		if !e.Ready {
			s.Ready = false
			s.Problems = append(s.Problems, fmt.Sprintf("%s is not ready: it %s", e.Name, e.Error))
		}
	}
}

// askOnce makes one request, without repeating it until it succeeds.
func askOnce(ctx context.Context, e framework.Entrance, path string) error {
	client, err := await.Client(e.Config)
	if err != nil {
		return err
	}
	defer client.CloseIdleConnections()
	_, err = await.Request(ctx, client, http.MethodGet, e.Config.Host+path, "")
	return err
}

// words explains an error of a request to an engineer who runs the cluster.
func words(err error) string {
	var status await.StatusError
	var network net.Error
	switch {
	case errors.As(err, &status):
		var failed []string
		for line := range strings.Lines(status.Body) {
			if check, _, ok := strings.Cut(strings.TrimPrefix(line, "[-]"), " "); ok && strings.HasPrefix(line, "[-]") {
				failed = append(failed, check)
			}
		}
		if len(failed) > 0 {
			return "fails the checks " + strings.Join(failed, ", ")
		}
		return fmt.Sprintf("answers with status %d", status.Code)
	case errors.Is(err, syscall.ECONNREFUSED):
		return "refuses connections: no process listens there"
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
		return "cannot be reached: no route to its machine"
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &network) && network.Timeout(), grpcstatus.Code(err) == codes.DeadlineExceeded, grpcstatus.Code(err) == codes.Unavailable:
		return "does not answer"
	}
	return err.Error()
}

// activeOf returns the node on which a component runs that a supervisor elects, from the hosts'
// states; empty if it runs on none or on several.
func activeOf(c framework.Component, hosts []HostStatus) (node string) {
	for _, h := range hosts {
		for _, p := range h.Components {
			if p.Component != c || p.PID == 0 {
				continue
			}
			if node != "" {
				return ""
			}
			node = h.Name
		}
	}
	return node
}

func etcdStatus(ctx context.Context, access framework.EtcdAccess, node string) *EtcdStatus {
	st := &EtcdStatus{}
	err := client.AskEtcd(ctx, access, node, statusLimit, func(ctx context.Context, etcd *clientv3.Client) error {
		answer, err := etcd.Status(ctx, etcd.Endpoints()[0])
		if err != nil {
			return err
		}
		st.Leader = answer.Leader == answer.Header.MemberId
		st.Term, st.Revision = answer.RaftTerm, answer.Header.Revision
		return nil
	})
	if err != nil {
		st.Error = words(err)
	}
	return st
}

func leaseStatus(ctx context.Context, e framework.Entrance, component framework.Component) LeaseStatus {
	st := LeaseStatus{Component: component}
	body, err := await.API(ctx, e, await.LeasePath(component), await.Holder)
	if err == nil {
		st.Holder, err = await.HolderOf(body)
	}
	if err != nil {
		st.Error = words(err)
	}
	return st
}
