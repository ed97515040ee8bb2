package framework

import (
	"context"
	"net/netip"
	"time"
)

// NameServiceFaulter is the ability of a cluster to have its name service lead
// hosts astray.
type NameServiceFaulter interface {
	// Names returns the names that the service answers for.
	Names() []string
	// DisturbNames changes what these hosts are answered until RestoreNames
	// or until ttl has passed, and returns a handle for it. Hosts are named as
	// by NetworkFaulter.Parties.
	DisturbNames(ctx context.Context, hosts []string, d NameDisturbance, ttl time.Duration) (handle string, err error)
	// RestoreNames ends a disturbance; it does nothing where it has ended.
	RestoreNames(ctx context.Context, handle string) error
	// LookUp looks a name up on a host, as a program there would. A name that
	// cannot be looked up is no error but part of the outcome.
	LookUp(ctx context.Context, host, name string) (Lookup, error)
}

// NameDisturbance is what happens to a host's questions.
type NameDisturbance struct {
	// Names narrows it to questions for these names. Empty means any.
	Names []string `json:"names,omitempty"`
	// Silent leaves questions without an answer.
	Silent bool `json:"silent,omitempty"`
	// Delay holds answers back.
	Delay time.Duration `json:"delay,omitempty"`
	// NotFound denies that there is such a name.
	NotFound bool `json:"notFound,omitempty"`
	// Address is given instead of the right one, where it is valid.
	Address netip.Addr `json:"address,omitzero"`
}

// Lookup is how looking up a name went.
type Lookup struct {
	Addresses []netip.Addr `json:"addresses,omitempty"`
	// Problem says why there are no addresses.
	Problem string        `json:"problem,omitempty"`
	Took    time.Duration `json:"took"`
}
