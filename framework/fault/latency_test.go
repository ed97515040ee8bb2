package fault

import (
	"strings"
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/framework"
)

func TestLatency(t *testing.T) {
	proveLinkFault(t, Latency, nil, framework.Impairment{Delay: 20 * time.Millisecond, Distribution: "uniform"})
	proveLinkFault(t, Latency, map[string]string{"delay": "50ms", "jitter": "10ms", "distribution": "normal"},
		framework.Impairment{Delay: 50 * time.Millisecond, Jitter: 10 * time.Millisecond, Distribution: "normal"})
}

// A delay shows when the first packet leaves, however long that takes.
func TestLongLatency(t *testing.T) {
	inBubble(t, "", func(t *testing.T, c *fakeCluster) {
		i := proofs{fault: Latency, target: wholeTarget("node-2"), params: map[string]string{"delay": "40s", "jitter": "2s"}}.inject(t, c)
		if !i.Proof().Proven {
			t.Errorf("%+v", i.Proof())
		}
		if healed, err := i.Heal(t.Context()); err != nil || !healed.Proven {
			t.Errorf("%+v, %v", healed, err)
		}
		err := Latency.Check(c, wholeTarget("node-2"), Params{TTL: 40 * time.Second, Values: map[string]string{"delay": "40s"}})
		if err == nil || !strings.Contains(err.Error(), "less than the time to live, 40s") {
			t.Errorf("longer than the fault lives: %v", err)
		}
	})
}
