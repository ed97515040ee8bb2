package fault

import (
	"testing"

	"github.com/holdfast-ha/holdfast/framework"
)

func TestReset(t *testing.T) {
	proveLinkFault(t, Reset, nil, framework.Impairment{Reset: true})
	proveLinkFault(t, Reset, map[string]string{"established": "true"}, framework.Impairment{Reset: true, Established: true})
}
