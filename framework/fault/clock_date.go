package fault

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/holdfast-ha/holdfast/framework"
)

// dateOf asks a component for the time: every HTTP response carries it, to the second. It returns
// how far the component's clock is ahead of ours, at least and at most.
func dateOf(ctx context.Context, e framework.ServingEndpoint) (low, high time.Duration, err error) {
	ctx, cancel := context.WithTimeout(ctx, tryLimit)
	defer cancel()
	config := e.TLS.Clone()
	config.InsecureSkipVerify = true // a fault may have replaced its certificate
	transport := &http.Transport{TLSClientConfig: config, DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return quickly(e).Connect(ctx) }}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+e.Address+e.Path, nil)
	if err != nil {
		return 0, 0, err
	}
	before := time.Now().Round(0)
	resp, err := transport.RoundTrip(req)
	if err != nil {
		return 0, 0, err
	}
	after := time.Now().Round(0)
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, 1<<20))
	_ = resp.Body.Close()
	date, err := http.ParseTime(resp.Header.Get("Date"))
	if err != nil {
		return 0, 0, fmt.Errorf("it sent no valid Date: %w", err)
	}
	return date.Sub(after), date.Add(time.Second).Sub(before), nil
}

// refusedAsExpired reports whether a component rejected our valid client certificate because of
// its time, as a component with a wrong clock does.
func refusedAsExpired(err error) bool {
	return err != nil && strings.Contains(err.Error(), "remote error: tls: expired certificate")
}

// residue is what is known about the difference between a clock and its expected value. Each
// answer narrows it; two on both sides of a full second narrow it to the time between them.
type residue struct {
	low, high time.Duration
	any       bool
}

func (r *residue) add(low, high time.Duration) {
	if !r.any {
		r.low, r.high, r.any = low, high, true
		return
	}
	r.low, r.high = max(r.low, low), min(r.high, high)
}

// dateSlack allows for measurements at different instants.
const dateSlack = 20 * time.Millisecond

// none reports whether there may be no difference.
func (r residue) none() bool { return r.low <= dateSlack && r.high >= -dateSlack }

func (r residue) String() string {
	if r.low > r.high {
		return "inconsistent: the clock does not run as fast as the harness's"
	}
	return fmt.Sprintf("%s to %s ahead", toMillisecond(r.low), toMillisecond(r.high))
}

func toMillisecond(d time.Duration) time.Duration { return d.Round(time.Millisecond) }
