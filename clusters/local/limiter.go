package local

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/holdfast-ha/holdfast/clusters/local/cgroup"
	"github.com/holdfast-ha/holdfast/framework"
)

// LimitSupport returns why the kernel cannot enforce a limit for a sandbox; nil if it can. Call
// it in one.
func LimitSupport(want framework.Limit) error {
	_, err := limitPlaces(want)
	return err
}

// limitPlaces finds the places for trees, and returns why a limit cannot be enforced.
func limitPlaces(want framework.Limit) ([]cgroup.Place, error) {
	places, why := cgroup.Find()
	c := controller(want)
	for _, p := range places {
		if !p.Has(c) {
			continue
		}
		if c == cgroup.Memory && !p.V2 && !want.Hard {
			return nil, errors.New("cgroup v1 has no memory limit that only throttles processes: it kills them")
		}
		return places, nil
	}
	return nil, fmt.Errorf("no control group for %s can be made here: %w", c, why[c])
}

// LimitSupport implements framework.Limiter.
func (l loaded) LimitSupport(want framework.Limit) error {
	return LimitSupport(want)
}

// Limit implements framework.Limiter.
func (l loaded) Limit(_ context.Context, components []framework.Component, want framework.Limit, ttl time.Duration) (string, error) {
	return l.m.limits.begin(components, want, ttl)
}

// Unlimit implements framework.Limiter.
func (l loaded) Unlimit(_ context.Context, handle string) error { return l.m.limits.end(handle) }

// ReadLimit implements framework.Limiter.
func (l loaded) ReadLimit(_ context.Context, handle string) (framework.LimitReading, error) {
	return l.m.limits.read(handle)
}

// sweepLimits removes the control groups of clusters whose processes were killed. It does not
// affect running clusters.
func sweepLimits() {
	if err := cgroup.Sweep(); err != nil {
		fmt.Fprintf(os.Stderr, "holdfast: %v\n", err)
	}
}
