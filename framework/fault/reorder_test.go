package fault

import (
	"testing"

	"github.com/holdfast-ha/holdfast/framework"
)

func TestReorder(t *testing.T) {
	proveLinkFault(t, Reorder, nil, framework.Impairment{Reorder: 0.1})
}
