// Package failover lets a client of the Kubernetes API use several API servers
// without a load balancer between them, as the API server HA proposal describes it
// (section 4.1): it starts at a random address, stays there while that works, moves
// on when it does not, and learns new addresses from the kubernetes service.
//
// It is a wrapper of transports, so that it fits any client that is built from a
// rest.Config:
//
//	servers, err := failover.New(failover.Config{Addresses: []string{"10.0.0.1:6443", "10.0.0.2:6443"}})
//	config.Wrap(servers.Wrap)
//	client, err := rest.HTTPClientFor(config)
//	clientset, err := kubernetes.NewForConfigAndClient(config, client)
//	go servers.Learn(ctx, client, time.Minute)
//
// Certificates are verified against the address in use, so each API server's
// certificate must carry its own.
package failover
