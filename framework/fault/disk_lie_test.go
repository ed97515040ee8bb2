package fault

import (
	"testing"

	"github.com/holdfast-ha/holdfast/framework"
)

func TestDiskLie(t *testing.T) {
	proofs{fault: DiskLie, target: component("node-2", framework.Etcd), broken: badDiskNow, already: noEtcd}.run(t)
	diskRefusals(t, DiskLie, map[string]string{"op=read": "the fault accepts none"})
}
