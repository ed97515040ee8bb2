package workload

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	clientset "k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/failover"
	"github.com/holdfast-ha/holdfast/framework/record"
	"github.com/holdfast-ha/holdfast/framework/workload/client"
)

const (
	// PurposeFailover marks the requests of StartFailover's client.
	PurposeFailover = "failover"
	// failoverKey is what it reads: an object that always exists, and that no API server returns
	// without etcd.
	failoverKey = "/api/v1/namespaces/default"
	// failoverPause is the pause between two of its requests, learnEach between two queries for
	// addresses.
	failoverPause = 800 * time.Millisecond
	learnEach     = time.Second
	// failoverTimeout is how long one of its requests may take: several addresses
	// may have to be tried for as long as a client waits for each.
	failoverTimeout = 20 * time.Second
	// failoverClients is the number of clients. Each starts with a random address, so with too
	// few all could start with the same one and the test would show nothing. Every other one is
	// client-go's, with its own connections, retries and limits.
	failoverClients = 8
)

// StartFailover starts clients that know the current addresses of the API servers, learn others
// from the kubernetes service and fail over on their own (see package failover). They read
// continuously (purpose "failover"); each operation has the last address that the client used. It
// returns when each of them has made its first request; stop stops them.
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
		name, of := fmt.Sprintf("%s/%d", PurposeFailover, i+1), looker(ownLook)
		if i%2 == 1 {
			name, of = fmt.Sprintf("%s/client-go/%d", PurposeFailover, i+1), clientGoLook
		}
		one, err := startFailover(ctx, entrances, w, name, of, seed+uint64(i), &began)
		if err != nil {
			stop()
			return nil, err
		}
		stops = append(stops, one)
	}
	began.Wait()
	return stop, nil
}

func startFailover(ctx context.Context, entrances []framework.Entrance, w *record.Writer, name string, of looker, seed uint64, began *sync.WaitGroup) (stop func(), err error) {
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
	ctx, cancel := context.WithCancel(ctx)
	transport := &http.Transport{Proxy: entrances[0].Config.Proxy, DialContext: client.Dialer(entrances[0].Config, 0), TLSClientConfig: tls, TLSHandshakeTimeout: failover.DefaultPatience}
	learner := &http.Client{Transport: servers.Wrap(transport)}
	wrapped := rest.CopyConfig(entrances[0].Config)
	wrapped.Wrap(servers.Wrap)
	wrapped.Dial = func(dialing context.Context, network, address string) (net.Conn, error) {
		// A dial outlives the request that it is for, but not the client.
		dialing, end := context.WithCancel(dialing)
		defer end()
		defer context.AfterFunc(ctx, end)()
		return client.Dialer(entrances[0].Config, 0)(dialing, network, address)
	}
	read, end, err := of(wrapped)
	if err != nil {
		cancel()
		return nil, fmt.Errorf("failover client: %w", err)
	}
	var all sync.WaitGroup
	all.Go(func() { servers.Learn(ctx, learner, learnEach) })
	began.Add(1)
	all.Go(func() {
		failoverRead(ctx, name, read, servers, w)
		began.Done()
		for client.Pause(ctx, failoverPause) {
			failoverRead(ctx, name, read, servers, w)
		}
	})
	return func() {
		cancel()
		all.Wait()
		end()
		transport.CloseIdleConnections()
	}, nil
}

// look reads an object that always exists, and returns the result.
type look func(context.Context) (record.Outcome, string)

// looker makes a client for a look, and returns a function that stops it.
type looker func(*rest.Config) (look, func(), error)

func ownLook(c *rest.Config) (look, func(), error) {
	api, err := client.NewAPI(c, client.Options{})
	if err != nil {
		return nil, nil, err
	}
	return func(ctx context.Context) (record.Outcome, string) {
		a := api.Do(ctx, client.Request{Method: http.MethodGet, Path: failoverKey})
		return a.Outcome(), a.Problem()
	}, api.Close, nil
}

func clientGoLook(c *rest.Config) (look, func(), error) {
	transport, err := rest.HTTPClientFor(c)
	if err != nil {
		return nil, nil, err
	}
	api, err := clientset.NewForConfigAndClient(c, transport)
	if err != nil {
		return nil, nil, err
	}
	return func(ctx context.Context) (record.Outcome, string) {
		if _, err := api.CoreV1().Namespaces().Get(ctx, "default", metav1.GetOptions{}); err != nil {
			return record.Unknown, err.Error()
		}
		return record.OK, ""
	}, func() { utilnet.CloseIdleConnectionsFor(transport.Transport) }, nil
}

func failoverRead(ctx context.Context, name string, read look, servers *failover.Servers, w *record.Writer) {
	op := record.Op{Client: name, Entrance: PurposeFailover, API: apiKubernetes, Type: record.OpGet, Consistency: "quorum",
		Key: failoverKey, Purpose: PurposeFailover, Call: w.Now()}
	limited, cancel := context.WithTimeout(ctx, failoverTimeout)
	defer cancel()
	outcome, problem := read(limited)
	if ctx.Err() != nil {
		return // given up: it says nothing about the cluster
	}
	op.Return, op.Outcome, op.Error, op.Address = w.Now(), outcome, problem, servers.Pinned()
	op.Found = op.Outcome == record.OK
	_ = w.Append(record.KindOp, op)
}
