// Package localtest contains what tests that create clusters share.
package localtest

import (
	"testing"

	"github.com/holdfast-ha/holdfast/clusters"
	"github.com/holdfast-ha/holdfast/clusters/local"
	"github.com/holdfast-ha/holdfast/clusters/release"
)

// NeedClusters skips a test that creates clusters of these descriptions in short mode, and if
// their binaries are not in the cache.
func NeedClusters(t testing.TB, all ...*clusters.Cluster) {
	t.Helper()
	if testing.Short() {
		t.Skip("creates clusters")
	}
	for _, c := range all {
		for _, b := range local.Binaries(c) {
			if _, err := release.Lookup(b.Product, b.Version, release.Options{}); err != nil {
				t.Skipf("run `holdfast fetch %s %s` first: %v", b.Product, b.Version, err)
			}
		}
	}
}
