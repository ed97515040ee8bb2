package framework

import (
	"context"
	"time"
)

// BackendReporter is the ability of a cluster to tell how its load balancer sees
// its backends.
type BackendReporter interface {
	// Backends asks the balancer for the state of all of its backends; none where
	// the cluster has no balancer. One that has no way to tell is errors.ErrUnsupported.
	Backends(ctx context.Context) ([]Backend, error)
}

// Backend is a load balancer's view of one of its backends.
type Backend struct {
	Name    string `json:"name"`
	Address string `json:"address,omitempty"`
	Up      bool   `json:"up"`
	// Standby says that it is not up by design: another one has the address that moves,
	// and this one is there to take it over.
	Standby bool `json:"standby,omitempty"`
	// Since is when Up last changed, to the second at worst.
	Since time.Time `json:"since"`
	// Check is the outcome of the last check, in the balancer's own words.
	Check string `json:"check,omitempty"`
}
