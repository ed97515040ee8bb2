package fault

import (
	"testing"

	"github.com/holdfast-ha/holdfast/framework"
)

func TestCorrupt(t *testing.T) {
	proveLinkFault(t, Corrupt, nil, framework.Impairment{Corrupt: 0.01})
}
