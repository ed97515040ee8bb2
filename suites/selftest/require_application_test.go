package selftest

import (
	"testing"

	"github.com/holdfast-ha/holdfast/framework"
)

func TestKinds(t *testing.T) {
	for name, k := range kinds() {
		if err := k.spec.Validate(); err != nil {
			t.Errorf("cluster %s: %v", name, err)
		}
	}
	if got := kinds()[rogue].spec.Spec.Nodes; len(got) != 3 || got[2].ExtraArgs[framework.ControllerManager]["leader-elect"] != "false" || got[1].ExtraArgs != nil {
		t.Errorf("%+v", got)
	}
	kwok := kinds()[pinned].spec.Spec.ExtraArgs[framework.Kwok]
	if kwok["master"] == "" || kwok["node-lease-duration-seconds"] != "4" {
		t.Errorf("%v", kwok)
	}
	if kwok := kinds()[scaled].spec.Spec.ExtraArgs[framework.Kwok]; kwok["master"] != "" {
		t.Errorf("%v", kwok)
	}
}
