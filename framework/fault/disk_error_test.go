package fault

import (
	"testing"

	"github.com/holdfast-ha/holdfast/framework"
)

func TestDiskError(t *testing.T) {
	for name, params := range map[string]map[string]string{
		"default":   nil,
		"some":      {"op": "fsync", "share": "10%"},
		"read only": {"error": "EROFS"},
	} {
		t.Run(name, func(t *testing.T) {
			proofs{fault: DiskError, target: component("node-2", framework.Etcd), params: params, broken: badDiskNow, already: noEtcd}.run(t)
		})
	}
	diskRefusals(t, DiskError, map[string]string{
		"op=none":              "one of all, fsync, read, write",
		"error=ENOENT":         "one of EIO, EROFS",
		"error=EROFS op=fsync": "write or all",
		"share=130%":           "above 0% up to 100%",
		"share=0":              "above 0%",
	})
}
