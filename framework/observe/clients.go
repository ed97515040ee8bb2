package observe

import (
	"context"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/record"
	"github.com/holdfast-ha/holdfast/framework/workload/client"
)

// clientPaces are how often clients with client-go's transport probe, in ProbeIntervals. With one
// client for each of three API servers they make 0.9 probes per interval in total.
var clientPaces = map[record.ProbeKind]float64{record.ProbeQuorumRead: 5, record.ProbeWrite: 10}

// clients probe the entrances that lead to several API servers as client-go does: each client
// keeps one HTTP/2 connection, with client-go's health check. There is one client for each API
// server. At the start they are spread over all of them, as far as the entrance allows, so that
// whichever fails has one. They do not move afterwards.
func (o *Observers) clients(ctx context.Context) ([]func(context.Context), error) {
	setup, cancel := o.setup(ctx)
	defer cancel()
	var loops []func(context.Context)
	for _, e := range o.cfg.Cluster.Entrances() {
		if e.Node != "" {
			continue
		}
		taken := map[string]bool{}
		for n := range o.servers() {
			api, err := o.elsewhere(setup, e, taken)
			if err != nil {
				return nil, err
			}
			for kind, pace := range clientPaces {
				p := o.prober(api, e, kind, time.Duration(pace*float64(o.cfg.ProbeInterval)))
				p.client, p.reused = "client-go-"+strconv.Itoa(n+1), true
				loops = append(loops, p.after(p.interval*time.Duration(n)/time.Duration(o.servers())))
			}
		}
	}
	return loops, nil
}

const (
	// keptClients is how many clients StartKept has, and keptInterval how often each of them
	// reads. With the highest --goaway-chance that Kubernetes allows, 2 %, an API server closes
	// 2.4 of their connections a second.
	keptClients  = 12
	keptInterval = 100 * time.Millisecond
)

// StartKept starts clients with client-go's transport that read through each entrance that leads
// to several API servers, each on its kept HTTP/2 connection, often enough to see soon whether
// anything closes such connections. stop stops them.
func StartKept(ctx context.Context, cfg Config, w *record.Writer) (stop func(), err error) {
	return startAlone(ctx, cfg, w, (*Observers).kept)
}

func (o *Observers) kept(context.Context) (loops []func(context.Context), err error) {
	for _, e := range o.cfg.Cluster.Entrances() {
		if e.Node != "" {
			continue
		}
		for n := range keptClients {
			api, err := o.api(e, client.Options{ClientGo: true})
			if err != nil {
				return nil, err
			}
			p := o.prober(api, e, record.ProbeRead, keptInterval)
			p.client, p.reused = "kept-"+strconv.Itoa(n+1), true
			loops = append(loops, p.after(keptInterval*time.Duration(n)/keptClients))
		}
	}
	return loops, nil
}

func (o *Observers) servers() int {
	return len(slices.DeleteFunc(slices.Clone(o.cfg.Cluster.Nodes()), framework.EtcdAlone))
}

// elsewhere returns a client connected to an API server that has none yet, if possible.
func (o *Observers) elsewhere(ctx context.Context, e framework.Entrance, taken map[string]bool) (*client.API, error) {
	for range 2 * o.servers() {
		api, err := client.NewAPI(e.Config, client.Options{ClientGo: true})
		if err != nil {
			return nil, err
		}
		node := o.nodeOf(o.serverOf(ctx, api, e))
		if node != "" && !taken[node] {
			taken[node] = true
			o.closers = append(o.closers, api.Close)
			return api, nil
		}
		api.Close()
	}
	return o.api(e, client.Options{ClientGo: true})
}

// serverOf makes a request and returns which server answered it.
func (o *Observers) serverOf(ctx context.Context, api *client.API, e framework.Entrance) []string {
	ctx, cancel := context.WithTimeout(ctx, o.cfg.ReadTimeout)
	defer cancel()
	return api.Do(ctx, client.Request{Method: http.MethodGet, Path: configMaps + "/" + keptObject(e)}).Server
}

// nodeOf returns the node with these certificate addresses; empty for none, or if they belong to
// several nodes.
func (o *Observers) nodeOf(server []string) (name string) {
	if len(server) == 0 {
		return ""
	}
	for _, n := range o.cfg.Cluster.Nodes() {
		if slices.Contains(server, n.Address().String()) {
			if name != "" {
				return ""
			}
			name = n.Name()
		}
	}
	return name
}

// keptObject names the object of the probes on kept connections.
func keptObject(e framework.Entrance) string { return "kept-" + e.Name }
