package workload

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"sync"
	"time"

	"k8s.io/client-go/rest"

	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/failover"
	"github.com/holdfast-ha/holdfast/framework/record"
	"github.com/holdfast-ha/holdfast/framework/workload/client"
)

const (
	// PurposeFailover marks the requests of StartFailover's client.
	PurposeFailover = "failover"
	// failoverKey is what it reads: something that is always there, and that no
	// API server answers without etcd.
	failoverKey = "/api/v1/namespaces/default"
	// failoverPause is between two of its requests, learnEach between two
	// questions for addresses.
	failoverPause = 800 * time.Millisecond
	learnEach     = time.Second
	// failoverTimeout is how long one of its requests may take: several addresses
	// may have to be tried for as long as a client waits for each.
	failoverTimeout = 20 * time.Second
	// failoverClients is how many there are: where each of them begins is left to
	// chance, and not at one and the same, or nothing shows that it is.
	failoverClients = 8
)

// StartFailover starts clients that know the addresses of the API servers that there
// are now, learn others from the kubernetes service and move on on their own when one
// fails (see package failover). They read all the while (purpose "failover"); each
// operation has the address that the client had in the end. It returns when each of
// them has made its first request; stop ends them.
func StartFailover(ctx context.Context, c framework.Cluster, w *record.Writer, seed uint64) (stop func(), err error) {
	entrances := apiServers(c.Entrances())
	if len(entrances) == 0 {
		return nil, fmt.Errorf("failover client: cluster %s has no API server that clients reach", c.Name())
	}
	var stops []func()
	var began sync.WaitGroup
	stop = func() {
		for _, s := range stops {
			s()
		}
	}
	for i := range failoverClients {
		one, err := startFailover(ctx, entrances, w, fmt.Sprintf("%s/%d", PurposeFailover, i+1), seed+uint64(i), &began)
		if err != nil {
			stop()
			return nil, err
		}
		stops = append(stops, one)
	}
	began.Wait()
	return stop, nil
}

func startFailover(ctx context.Context, entrances []framework.Entrance, w *record.Writer, name string, seed uint64, began *sync.WaitGroup) (stop func(), err error) {
	config := failover.Config{Seed: seed}
	for _, e := range entrances {
		u, err := url.Parse(e.Config.Host)
		if err != nil {
			return nil, fmt.Errorf("failover client: address of %s: %w", e.Name, err)
		}
		config.Addresses = append(config.Addresses, u.Host)
	}
	servers, err := failover.New(config)
	if err != nil {
		return nil, err
	}
	tls, err := rest.TLSConfigFor(entrances[0].Config)
	if err != nil {
		return nil, fmt.Errorf("failover client: %w", err)
	}
	transport := &http.Transport{DialContext: client.Dialer(entrances[0].Config), TLSClientConfig: tls, TLSHandshakeTimeout: failover.DefaultPatience}
	learner := &http.Client{Transport: servers.Wrap(transport)}
	wrapped := rest.CopyConfig(entrances[0].Config)
	wrapped.Wrap(servers.Wrap)
	api, err := client.NewAPI(wrapped, client.Options{})
	if err != nil {
		return nil, fmt.Errorf("failover client: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	var all sync.WaitGroup
	all.Go(func() { servers.Learn(ctx, learner, learnEach) })
	began.Add(1)
	all.Go(func() {
		failoverRead(ctx, name, api, servers, w)
		began.Done()
		for client.Pause(ctx, failoverPause) {
			failoverRead(ctx, name, api, servers, w)
		}
	})
	return func() {
		cancel()
		all.Wait()
		api.Close()
		transport.CloseIdleConnections()
	}, nil
}

func failoverRead(ctx context.Context, name string, api *client.API, servers *failover.Servers, w *record.Writer) {
	op := record.Op{Client: name, Entrance: PurposeFailover, API: apiKubernetes, Type: record.OpGet, Consistency: "quorum",
		Key: failoverKey, Purpose: PurposeFailover, Call: w.Now()}
	limited, cancel := context.WithTimeout(ctx, failoverTimeout)
	defer cancel()
	a := api.Do(limited, client.Request{Method: http.MethodGet, Path: failoverKey})
	if ctx.Err() != nil {
		return // given up: it says nothing of the cluster
	}
	op.Return, op.Outcome, op.Error, op.Address = w.Now(), a.Outcome(), a.Problem(), servers.Pinned()
	op.Found = op.Outcome == record.OK
	_ = w.Append(record.KindOp, op)
}
