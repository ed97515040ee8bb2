package main

import (
	"slices"
	"strings"

	"github.com/holdfast-ha/holdfast/clusters"
	"github.com/holdfast-ha/holdfast/clusters/kind"
	"github.com/holdfast-ha/holdfast/clusters/local"
	"github.com/holdfast-ha/holdfast/clusters/remote"
	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/nearest"
)

// providers are all providers that create clusters or take them over; the first is the default.
var providers = []clusters.Provider{local.Provider{}, kind.Provider{}, remote.Provider{}}

func providerNames() string {
	return strings.Join(framework.Names(providers, clusters.Provider.Name), ", ")
}

func providerNamed(name string) (clusters.Provider, error) {
	i := slices.IndexFunc(providers, func(p clusters.Provider) bool { return p.Name() == name })
	if i < 0 {
		return nil, usageError("--provider %s: want one of %s%s", name, providerNames(), nearest.Meant(strings.Split(providerNames(), ", "), name))
	}
	return providers[i], nil
}
