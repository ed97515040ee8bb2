package fault

import (
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/framework"
)

func TestLatency(t *testing.T) {
	proveLinkFault(t, Latency, nil, framework.Impairment{Delay: 20 * time.Millisecond, Distribution: "uniform"})
	proveLinkFault(t, Latency, map[string]string{"delay": "50ms", "jitter": "10ms", "distribution": "normal"},
		framework.Impairment{Delay: 50 * time.Millisecond, Jitter: 10 * time.Millisecond, Distribution: "normal"})
}
