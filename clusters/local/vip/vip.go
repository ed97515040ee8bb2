package vip

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/signal"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/holdfast-ha/holdfast/clusters"
	"github.com/holdfast-ha/holdfast/clusters/local/balancer"
	"github.com/holdfast-ha/holdfast/clusters/system"
)

// Port is the UDP port on which nodes receive each other's messages about the address.
const Port = 8405

// Config configures one node's process. Its JSON form is the file that Main reads.
type Config struct {
	// Name is this node's name, Nodes are all nodes in the order in which they take the
	// address.
	Name  string `json:"name"`
	Nodes []Node `json:"nodes"`
	// Device is the network device that takes Address.
	Device  string     `json:"device"`
	Address netip.Addr `json:"address"`
	// Status is the address of the status page, which serves Status as JSON.
	Status string `json:"status"`
	// Check is the URL that answers 200 when this node may hold the address.
	Check string `json:"check"`
	// HealthCheck is how often that is checked; durations in nanoseconds. If it is disabled,
	// this node always counts as ready.
	HealthCheck clusters.HealthCheck `json:"healthCheck"`
}

// Node is a node that may hold the address.
type Node struct {
	Name    string     `json:"name"`
	Address netip.Addr `json:"address"`
}

// Status is the document of the status page.
type Status struct {
	// Holder reports whether this node holds the address, Since when that changed.
	Holder bool      `json:"holder"`
	Since  time.Time `json:"since"`
	// Ready is the result of the checks, LastCheck the outcome of the last one.
	Ready     bool   `json:"ready"`
	LastCheck string `json:"lastCheck,omitempty"`
}

// message is a message between nodes.
type message struct {
	From string `json:"from"`
	// Holds is false if the address was released.
	Holds bool `json:"holds"`
}

// place is where the address is kept.
type place interface {
	Take() error
	Drop() error
	Announce() error
}

// keeper is one node's process at work.
type keeper struct {
	config Config
	place  place
	socket *net.UDPConn

	mu       sync.Mutex
	election election
	status   Status
	state    balancer.State
}

// Main is one node's process as a program, with its configuration file as the only argument.
// SIGTERM and SIGINT stop it, and make it release the address.
func Main(args []string) error {
	if len(args) != 1 {
		return errors.New("usage: holdfast-vip CONFIG")
	}
	var config Config
	if err := system.ReadJSON(args[0], &config); err != nil {
		return fmt.Errorf("failed to read the configuration of the virtual IP: %w", err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	card, err := NewCard(config.Device, config.Address)
	if err != nil {
		return err
	}
	defer card.Close()
	return run(ctx, config, card)
}

// run holds the address as elected until ctx ends, and then releases it.
func run(ctx context.Context, c Config, p place) error {
	rank := slices.IndexFunc(c.Nodes, func(n Node) bool { return n.Name == c.Name })
	if rank < 0 {
		return fmt.Errorf("the virtual IP: unknown node %q", c.Name)
	}
	// A killed process may have left it.
	if err := p.Drop(); err != nil {
		return err
	}
	socket, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(c.Nodes[rank].Address, Port)))
	if err != nil {
		return fmt.Errorf("failed to listen for the other nodes: %w", err)
	}
	page, err := net.Listen("tcp", c.Status)
	if err != nil {
		return errors.Join(fmt.Errorf("failed to listen for the status page: %w", err), socket.Close())
	}
	now := time.Now()
	k := &keeper{config: c, place: p, socket: socket, status: Status{Since: now},
		election: election{rank: rank, nodes: len(c.Nodes), interval: c.HealthCheck.Interval, fall: c.HealthCheck.Fall, heard: now}}
	if c.HealthCheck.Disabled {
		k.election.check(true, now)
	}
	var work sync.WaitGroup
	server := &http.Server{Handler: http.HandlerFunc(k.serveStatus), ReadHeaderTimeout: 5 * time.Second}
	work.Go(func() { _ = server.Serve(page) })
	work.Go(k.hear)
	if !c.HealthCheck.Disabled {
		work.Go(func() { k.check(ctx) })
	}
	err = k.hold(ctx)
	err = errors.Join(err, socket.Close(), server.Close())
	work.Wait()
	return err
}

// hold takes and releases the address as elected.
func (k *keeper) hold(ctx context.Context) error {
	beat := time.NewTicker(max(k.config.HealthCheck.Interval/20, 5*time.Millisecond))
	defer beat.Stop()
	var told time.Time
	for holds := false; ; {
		k.mu.Lock()
		k.election.pass(time.Now())
		should, yielded := k.election.holder && ctx.Err() == nil, k.election.yielded
		k.mu.Unlock()
		// From before it is taken until it is released, it may be here.
		switch {
		case should && !holds:
			k.reports(true)
			if err := k.place.Take(); err != nil {
				return err
			}
			told = time.Time{}
		case !should && holds:
			if err := k.place.Drop(); err != nil {
				return err
			}
			k.reports(false)
			if !yielded {
				k.tell(false)
			}
		}
		if holds = should; holds && time.Since(told) >= k.config.HealthCheck.Interval {
			told = time.Now()
			k.tell(true)
			// Repeatedly: a host that missed the first one would otherwise keep asking the old
			// holder.
			if err := k.place.Announce(); err != nil {
				fmt.Fprintf(os.Stderr, "vip: %v\n", err)
			}
		}
		select {
		case <-ctx.Done():
			if !holds {
				return nil
			}
		case <-beat.C:
		}
	}
}

// reports has the status page say whether the node holds the address.
func (k *keeper) reports(holder bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.status.Holder, k.status.Since = holder, time.Now()
}

// tell sends a message to all other nodes. A lost one is repeated at the next interval.
func (k *keeper) tell(holds bool) {
	b, err := json.Marshal(message{From: k.config.Name, Holds: holds})
	if err != nil {
		return
	}
	for _, n := range k.config.Nodes {
		if n.Name != k.config.Name {
			_, _ = k.socket.WriteToUDPAddrPort(b, netip.AddrPortFrom(n.Address, Port))
		}
	}
}

// hear receives from the other nodes until the socket is closed.
func (k *keeper) hear() {
	b := make([]byte, 512)
	for {
		n, _, err := k.socket.ReadFromUDPAddrPort(b)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		var m message
		if err != nil || json.Unmarshal(b[:n], &m) != nil {
			continue
		}
		if rank := slices.IndexFunc(k.config.Nodes, func(n Node) bool { return n.Name == m.From }); rank >= 0 {
			k.mu.Lock()
			k.election.hear(rank, m.Holds, time.Now())
			k.mu.Unlock()
		}
	}
}

// check checks the state of the API server at a fixed interval.
func (k *keeper) check(ctx context.Context) {
	client := balancer.CheckClient()
	balancer.Check(ctx, k.config.HealthCheck, func(ctx context.Context) error { return balancer.Ready(ctx, client, k.config.Check) },
		func(err error) {
			k.mu.Lock()
			defer k.mu.Unlock()
			if k.state.Judge(k.config.HealthCheck, err) {
				k.election.check(k.state.Up, time.Now())
			}
		})
}

func (k *keeper) serveStatus(w http.ResponseWriter, _ *http.Request) {
	k.mu.Lock()
	status := k.status
	status.Ready, status.LastCheck = k.election.ready, k.state.LastCheck
	k.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(status)
}
