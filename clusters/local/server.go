package local

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/holdfast-ha/holdfast/clusters/internal/await"
	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/fault"
)

// Status is the state of a cluster now.
type Status struct {
	Name       string           `json:"name"`
	Started    time.Time        `json:"started"`
	Server     string           `json:"server"` // for clients on this machine
	Kubeconfig string           `json:"kubeconfig"`
	Ready      bool             `json:"ready"`
	Entrances  []EntranceStatus `json:"entrances"`
	Hosts      []HostStatus     `json:"hosts"`
	Leases     []LeaseStatus    `json:"leases"`
	// Network says which kind of device joins the machines.
	Network string `json:"network"`
	// Impairments are how many impairments of the network are in force.
	Impairments int `json:"impairments"`
	// Faults are the injections in force.
	Faults []fault.Entry `json:"faults"`
}

// EntranceStatus is the state of a way in.
type EntranceStatus struct {
	Name  string `json:"name"`
	URL   string `json:"url"` // inside the sandbox
	Ready bool   `json:"ready"`
	Error string `json:"error,omitempty"`
}

// HostStatus is the state of a machine.
type HostStatus struct {
	Name       string              `json:"name"`
	Address    string              `json:"address"`
	Powered    bool                `json:"powered"`
	PID        int                 `json:"pid,omitempty"` // in the sandbox
	Dir        string              `json:"dir"`           // its disk, as the sandbox sees it
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

// LeaseStatus names the holder of an elected component's lease, or the node on which
// it runs where a supervisor elects it.
type LeaseStatus struct {
	Component framework.Component `json:"component"`
	Holder    string              `json:"holder"`
	Error     string              `json:"error,omitempty"`
}

// statusLimit is how long one answer of Status may take to gather.
const statusLimit = 3 * time.Second

func (s *server) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /status", func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), statusLimit)
		defer cancel()
		status := s.cluster.Status(ctx)
		status.Started, status.Server, status.Faults = s.started, s.url, s.board.InForce()
		_ = json.NewEncoder(w).Encode(status)
	})
	s.handleFaults(mux)
	mux.HandleFunc("POST /down", func(http.ResponseWriter, *http.Request) { s.down() })
	return mux
}

// Status looks at every part of the cluster at once. What does not answer
// within ctx is reported as such.
func (c *Cluster) Status(ctx context.Context) Status {
	entrances := c.Entrances()
	status := Status{Name: c.Name(), Entrances: make([]EntranceStatus, len(entrances)), Network: c.backend, Impairments: c.impair.inForce()}
	hosts := c.machines()
	status.Hosts = make([]HostStatus, len(hosts))
	elected := []framework.Component{framework.ControllerManager, framework.Scheduler}
	status.Leases = make([]LeaseStatus, len(elected))
	versions := c.Versions()

	var wg sync.WaitGroup
	for i, e := range entrances {
		wg.Go(func() {
			st := EntranceStatus{Name: e.Name, URL: e.Config.Host}
			if _, err := await.API(ctx, e, "/readyz", await.Anything); err != nil {
				st.Error = err.Error()
			}
			st.Ready = st.Error == ""
			status.Entrances[i] = st
		})
	}
	for i, m := range hosts {
		wg.Go(func() {
			st := HostStatus{Name: m.name, Address: m.addr.Addr().String(), Powered: m.powered(), PID: m.pid(), Dir: m.dir}
			if st.Powered {
				var err error
				if st.Components, err = m.agent.processes(ctx); err != nil {
					st.Error = err.Error()
				}
			}
			for component, v := range versions[m.name] {
				if st.Versions == nil {
					st.Versions = map[string]string{}
				}
				st.Versions[string(component)] = v
			}
			if versions[m.name] != nil {
				st.Etcd = c.etcdStatus(ctx, m.name)
			}
			status.Hosts[i] = st
		})
	}
	locks := c.Locks()
	for i, name := range elected {
		if locks[name] == "" {
			wg.Go(func() {
				status.Leases[i] = c.leaseStatus(ctx, name)
			})
		}
	}
	wg.Wait()
	for i, name := range elected {
		if locks[name] != "" {
			status.Leases[i] = LeaseStatus{Component: name, Holder: activeOf(name, status.Hosts)}
		}
	}
	status.Ready = true
	for _, e := range status.Entrances {
		status.Ready = status.Ready && e.Ready
	}
	return status
}

func (c *Cluster) etcdStatus(ctx context.Context, node string) *EtcdStatus {
	st := &EtcdStatus{}
	err := func() error {
		config, err := c.EtcdConfig(node)
		if err != nil {
			return err
		}
		client, err := clientv3.New(config)
		if err != nil {
			return err
		}
		defer client.Close()
		answer, err := client.Status(ctx, config.Endpoints[0])
		if err != nil {
			return err
		}
		st.Leader = answer.Leader == answer.Header.MemberId
		st.Term, st.Revision = answer.RaftTerm, answer.Header.Revision
		return nil
	}()
	if err != nil {
		st.Error = err.Error()
	}
	return st
}

func (c *Cluster) leaseStatus(ctx context.Context, component framework.Component) LeaseStatus {
	st := LeaseStatus{Component: component}
	body, err := await.API(ctx, c.Entrances()[0], await.LeasePath(component), await.Holder)
	if err != nil {
		st.Error = err.Error()
		return st
	}
	var lease struct {
		Spec struct{ HolderIdentity string }
	}
	if err := json.Unmarshal(body, &lease); err != nil {
		st.Error = err.Error()
	}
	st.Holder = lease.Spec.HolderIdentity
	return st
}

// forwardLimit is how long the forwarder tries to connect.
const forwardLimit = 10 * time.Second

// forwardTo joins every connection that l accepts to one of its own to target.
func forwardTo(l net.Listener, target string, d *net.Dialer) {
	for {
		in, err := l.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			time.Sleep(10 * time.Millisecond) // out of descriptors, for one
			continue
		}
		go func() {
			defer in.Close()
			ctx, cancel := context.WithTimeout(context.Background(), forwardLimit)
			out, err := d.DialContext(ctx, "tcp", target)
			cancel()
			if err != nil {
				return
			}
			defer out.Close()
			done := make(chan struct{}, 2)
			pipe := func(dst, src net.Conn) {
				_, _ = io.Copy(dst, src)
				if t, ok := dst.(*net.TCPConn); ok {
					_ = t.CloseWrite()
				}
				done <- struct{}{}
			}
			go pipe(out, in)
			go pipe(in, out)
			<-done
			<-done
		}()
	}
}
