package failover

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strconv"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"
)

// slicesPath lists the EndpointSlices of the kubernetes service, which the API servers themselves
// maintain.
const slicesPath = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices?labelSelector=kubernetes.io%2Fservice-name%3Dkubernetes"

// Learn queries the addresses of the kubernetes service now and then at every interval, until ctx
// ends. c is a client that uses the servers and may list EndpointSlices in the namespace default,
// such as that of rest.HTTPClientFor. A failed query changes nothing; the next one follows after
// a fifth of the interval.
func (s *Servers) Learn(ctx context.Context, c *http.Client, every time.Duration) {
	for {
		pause := every
		if s.LearnOnce(ctx, c) != nil {
			pause = every / 5
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
	}
}

// LearnOnce queries once. It fails if no address answers, if the query is refused, or if the
// service lists no address.
func (s *Servers) LearnOnce(ctx context.Context, c *http.Client) error {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(len(s.Addresses())+1)*s.patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+s.Pinned()+slicesPath, nil)
	if err != nil {
		return fmt.Errorf("failover: failed to learn addresses: %w", err)
	}
	res, err := c.Do(req)
	if err != nil {
		return fmt.Errorf("failover: failed to learn addresses from the kubernetes service: %w", err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("failover: failed to learn addresses from the kubernetes service: %s", res.Status)
	}
	addresses, err := parseSlices(res)
	if err != nil {
		return fmt.Errorf("failover: failed to learn addresses from the kubernetes service: %w", err)
	}
	s.Set(addresses)
	return nil
}

// parseSlices returns the ready addresses, each with the service's https port.
func parseSlices(res *http.Response) ([]string, error) {
	var list discoveryv1.EndpointSliceList
	if err := json.NewDecoder(res.Body).Decode(&list); err != nil {
		return nil, err
	}
	var all []string
	for _, slice := range list.Items {
		for _, port := range slice.Ports {
			if port.Port == nil || port.Name == nil || *port.Name != "https" {
				continue
			}
			for _, e := range slice.Endpoints {
				if ready := e.Conditions.Ready; ready != nil && !*ready {
					continue
				}
				for _, a := range e.Addresses {
					all = append(all, net.JoinHostPort(a, strconv.Itoa(int(*port.Port))))
				}
			}
		}
	}
	if len(all) == 0 {
		return nil, errors.New("it lists no ready address")
	}
	slices.Sort(all)
	return slices.Compact(all), nil
}
