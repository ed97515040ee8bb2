package agent

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"time"

	"github.com/holdfast-ha/holdfast/clusters/agenthttp"
	"github.com/holdfast-ha/holdfast/framework"
)

// Client sends requests to the agent of one node. It implements the framework's abilities on
// the node's processes.
type Client struct {
	http *agenthttp.Client
	node string
	// Balancer is the balancer's name. A certificate with the defect
	// framework.CertificateNoBalancerName does not contain it.
	Balancer string
}

var (
	_ framework.ProcessReporter    = (*Client)(nil)
	_ framework.Killer             = (*Client)(nil)
	_ framework.Stopper            = (*Client)(nil)
	_ framework.Starter            = (*Client)(nil)
	_ framework.Freezer            = (*Client)(nil)
	_ framework.CrashLooper        = (*Client)(nil)
	_ framework.CertificateFaulter = (*Client)(nil)
	_ framework.EtcdOperator       = (*Client)(nil)
	_ framework.DiskWiper          = (*Client)(nil)
	_ framework.AuditReader        = (*Client)(nil)
)

// NewClient returns a client of a node's agent. dial opens a connection to the agent's socket,
// for example by running ConnectPath inside the node and joining its standard input and output.
// One connection is open at a time.
func NewClient(node string, dial func(context.Context) (net.Conn, error)) *Client {
	return &Client{node: node, http: agenthttp.NewMultiplexed(dial)}
}

// NewLocalClient returns a client of an agent whose socket is on this machine.
func NewLocalClient(node, socket string) *Client {
	return &Client{node: node, http: agenthttp.NewUnix("its node agent", socket)}
}

// Close closes the connections to the agent.
func (c *Client) Close() { c.http.Close() }

// answerLimit is how long an agent may take to answer. It takes a few milliseconds, unless its
// node is paused or the connection has to be opened first.
const answerLimit = 10 * time.Second

// do sends a request and reads the answer into out, unless out is nil. what follows "failed to" in its
// error, so it starts with a verb: "stop etcd".
func (c *Client) do(ctx context.Context, limit time.Duration, method, path, what string, in, out any) error {
	ctx, cancel := agenthttp.Within(ctx, limit)
	defer cancel()
	if err := c.http.Call(ctx, method, path, in, out); err != nil {
		return fmt.Errorf("failed to %s on %s: %w", what, c.node, err)
	}
	return nil
}

func (c *Client) post(ctx context.Context, path, what string, req request, out any) error {
	return c.do(ctx, answerLimit, http.MethodPost, path, what, &req, out)
}

func (c *Client) tell(ctx context.Context, verb string, req request) error {
	return c.post(ctx, verb, fmt.Sprintf("%s %s", verb, req.Component), req, nil)
}

// Ping returns once the agent answers.
func (c *Client) Ping(ctx context.Context) error {
	return c.do(ctx, networkLimit, http.MethodGet, "ping", "ping the agent", nil, nil)
}

// Lapsed returns how long ago the agent healed everything, because it received no request within its
// leash or because a run requested that; 0 if it never did.
func (c *Client) Lapsed(ctx context.Context) (ago time.Duration, err error) {
	err = c.do(ctx, networkLimit, http.MethodGet, "lapsed", "query early healing", nil, &ago)
	return ago, err
}

// Processes reports the state of every component that the agent knows.
func (c *Client) Processes(ctx context.Context) (all []framework.Process, err error) {
	err = c.do(ctx, answerLimit, http.MethodGet, "processes", "list components", nil, &all)
	return all, err
}

// Process implements framework.ProcessReporter.
func (c *Client) Process(ctx context.Context, component framework.Component) (p framework.Process, err error) {
	err = c.post(ctx, "process", fmt.Sprintf("query the process of %s", component), request{Component: component}, &p)
	return p, err
}

// Connections implements framework.ConnectionReporter.
func (c *Client) Connections(ctx context.Context, peers []netip.Addr) (all []framework.Connection, err error) {
	err = c.post(ctx, "connections", "list TCP connections", request{Addresses: peers}, &all)
	return all, err
}

// SendProbes makes the node send packets; see system.SendProbes.
func (c *Client) SendProbes(ctx context.Context, to netip.AddrPort, packets int) error {
	return c.do(ctx, networkLimit, http.MethodPost, "probe", "send packets", &request{Probe: to, Packets: packets}, nil)
}

// Kill implements framework.Killer.
func (c *Client) Kill(ctx context.Context, component framework.Component, hold time.Duration) error {
	return c.tell(ctx, "kill", request{Component: component, For: hold})
}

// Stop implements framework.Stopper.
func (c *Client) Stop(ctx context.Context, component framework.Component, hold time.Duration) error {
	return c.do(ctx, answerLimit+StopGrace, http.MethodPost, "stop", fmt.Sprintf("stop %s", component), &request{Component: component, For: hold}, nil)
}

// Start implements framework.Starter.
func (c *Client) Start(ctx context.Context, component framework.Component) error {
	return c.tell(ctx, "start", request{Component: component})
}

// Admit lets a supervised component run until a time on the monotonic clock of its machine
// (system.Monotonic). If that time has passed, Admit returns once the component has exited.
func (c *Client) Admit(ctx context.Context, component framework.Component, until time.Duration) error {
	return c.tell(ctx, "admit", request{Component: component, Until: until})
}

// Renew changes how a component that the agent runs is started the next time. The agent's
// successor uses its configuration.
func (c *Client) Renew(ctx context.Context, component framework.Component, e *Exec) error {
	return c.tell(ctx, "renew", request{Component: component, Exec: e})
}

// Reload sends SIGHUP to a component.
func (c *Client) Reload(ctx context.Context, component framework.Component) error {
	return c.tell(ctx, "reload", request{Component: component})
}

// Call sends a request specific to a provider; see Run. what follows "failed to" in its error, so it
// starts with a verb: "start a load".
func (c *Client) Call(ctx context.Context, path, what string, in, out any) error {
	return c.do(ctx, answerLimit, http.MethodPost, path, what, in, out)
}

// Freeze implements framework.Freezer.
func (c *Client) Freeze(ctx context.Context, component framework.Component, ttl time.Duration) error {
	return c.tell(ctx, "freeze", request{Component: component, For: ttl})
}

// Thaw implements framework.Freezer.
func (c *Client) Thaw(ctx context.Context, component framework.Component) error {
	return c.tell(ctx, "thaw", request{Component: component})
}

// CrashLoop implements framework.CrashLooper.
func (c *Client) CrashLoop(ctx context.Context, component framework.Component, after, ttl time.Duration) error {
	return c.tell(ctx, "crash-loop", request{Component: component, After: after, For: ttl})
}

// EndCrashLoop implements framework.CrashLooper.
func (c *Client) EndCrashLoop(ctx context.Context, component framework.Component) error {
	return c.post(ctx, "end-crash-loop", fmt.Sprintf("end the crash loop of %s", component), request{Component: component}, nil)
}
