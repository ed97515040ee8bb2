package fault

import (
	"strings"
	"testing"

	"github.com/holdfast-ha/holdfast/framework"
)

func TestMemoryPressure(t *testing.T) {
	for _, params := range []map[string]string{{"size": "100M"}, {"by": "cgroup"}, {"by": "cgroup", "limit": "20M", "oom": "true"}} {
		for name, p := range pressed(MemoryPressure, params) {
			t.Run(name+params["by"]+params["oom"], p.run)
		}
	}
}

func TestMemoryPressureCheck(t *testing.T) {
	c := newFake(framework.APIServer)
	for _, size := range []string{"1Mi", "2Ti", "-1", "all"} {
		err := MemoryPressure.Check(c, wholeTarget("node-1"), Params{TTL: ttl, Values: map[string]string{"size": size}})
		if err == nil || !strings.Contains(err.Error(), "from 64Mi to 1Ti") {
			t.Errorf("%s: %v", size, err)
		}
	}
}
