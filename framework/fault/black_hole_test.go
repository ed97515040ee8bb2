package fault

import (
	"testing"

	"github.com/holdfast-ha/holdfast/framework"
)

func TestBlackHole(t *testing.T) {
	proveLinkFault(t, BlackHole, nil, framework.Impairment{Cut: true})
	proveLinkFault(t, BlackHole, map[string]string{"established": "true"}, framework.Impairment{Cut: true, Established: true})
}
