package local

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/holdfast-ha/holdfast/clusters/agent"
	"github.com/holdfast-ha/holdfast/clusters/agenthttp"
	"github.com/holdfast-ha/holdfast/clusters/system"
	"github.com/holdfast-ha/holdfast/framework"
)

// agentConfig is the configuration of a machine's node agent.
type agentConfig struct {
	agent.Config
	// Claimed is the address that the machine took over from another one, invalid if it did
	// not; see claim. The load balancer claims its own address back from a node.
	Claimed netip.Addr `json:"claimed,omitzero"`
}

// What the agents of this provider serve in addition.
const (
	pressPath  = "press"  // a loadSpec
	lookUpPath = "lookup" // a name
	claimPath  = "claim"  // nothing: the configuration has the address
)

// runAgent is a machine's node agent. It starts the machine's components, as the kubelet does,
// and so do its successors, with a back-off.
func runAgent(args []string) error {
	if len(args) != 1 {
		return errors.New("usage: holdfast-agent CONFIG")
	}
	cfg, err := readConfig(args[0])
	if err != nil {
		return err
	}
	var claimed claim
	if err := claimed.set(cfg.Claimed); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	return agent.Run(ctx, cfg.Config, func(mux *http.ServeMux) {
		agenthttp.Answer(mux, "POST /"+pressPath, func(_ context.Context, spec loadSpec) (any, error) { return nil, startLoad(spec) })
		agenthttp.Answer(mux, "POST /"+lookUpPath, func(ctx context.Context, name string) (any, error) { return lookUp(ctx, name), nil })
		agenthttp.Answer(mux, "POST /"+claimPath, func(context.Context, struct{}) (any, error) {
			cfg, err := readConfig(args[0])
			if err != nil {
				return nil, err
			}
			return nil, claimed.set(cfg.Claimed)
		})
	})
}

func readConfig(file string) (cfg agentConfig, err error) {
	if err = system.ReadJSON(file, &cfg); err != nil {
		err = fmt.Errorf("failed to read the agent's configuration %s: %w", file, err)
	}
	return cfg, err
}

// lookUp resolves a name like the components of this machine, which are Go programs without
// libc.
func lookUp(ctx context.Context, name string) framework.Lookup {
	resolver := &net.Resolver{PreferGo: true}
	began := time.Now()
	addrs, err := resolver.LookupNetIP(ctx, "ip4", name)
	found := framework.Lookup{Addresses: addrs, Took: time.Since(began)}
	if err != nil {
		found.Problem = err.Error()
	}
	return found
}
