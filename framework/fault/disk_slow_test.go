package fault

import (
	"testing"

	"github.com/holdfast-ha/holdfast/framework"
)

func TestDiskSlow(t *testing.T) {
	for name, params := range map[string]map[string]string{
		"default": nil,
		"reads":   {"op": "read", "delay": "20ms", "jitter": "20ms"},
		"all":     {"op": "all", "delay": "20ms"},
	} {
		t.Run(name, func(t *testing.T) {
			proofs{fault: DiskSlow, target: component("node-2", framework.Etcd), params: params, broken: badDiskNow, already: noEtcd}.run(t)
		})
	}
	diskRefusals(t, DiskSlow, map[string]string{
		"op=sync":                 "one of fsync, all, read, write",
		"delay=-1ms":              "from 1ms to 1m",
		"delay=10ms jitter=20ms":  "from 0s to delay, 10ms",
		"delay=10ms jitter=-20ms": "from 0s to 1m",
		"speed=1":                 "the fault accepts delay, jitter, op",
	})
}
