package fault

import (
	"testing"

	"github.com/holdfast-ha/holdfast/framework"
)

func TestBandwidth(t *testing.T) {
	proveLinkFault(t, Bandwidth, nil, framework.Impairment{Rate: 10e6})
	proveLinkFault(t, Bandwidth, map[string]string{"rate": "512Ki"}, framework.Impairment{Rate: 512 << 10})
}
