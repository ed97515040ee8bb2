package balancer

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/holdfast-ha/holdfast/framework"
)

// Backends queries a built-in balancer, by the address of its status page, for the state of its
// backends. One whose name is host:port is reported as the host.
func Backends(ctx context.Context, page string) ([]framework.Backend, error) {
	var status Status
	if err := ReadPage(ctx, page, &status); err != nil {
		return nil, err
	}
	var all []framework.Backend
	for _, b := range status.Backends {
		name := b.Name
		if host, _, err := net.SplitHostPort(name); err == nil {
			name = host
		}
		all = append(all, framework.Backend{Name: name, Address: b.Address, Up: b.Healthy, Since: b.Since.Round(time.Microsecond), Check: b.LastCheck})
	}
	return all, nil
}

// ReadPage reads the JSON of a status page.
func ReadPage(ctx context.Context, address string, into any) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/", nil)
	if err != nil {
		return err
	}
	// A new connection each time: a kept one shows nothing about a balancer that was restarted.
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: (&net.Dialer{Timeout: 5 * time.Second}).DialContext}}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if err := json.NewDecoder(resp.Body).Decode(into); err != nil {
		return fmt.Errorf("its status page: %w", err)
	}
	return nil
}
