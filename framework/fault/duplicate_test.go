package fault

import (
	"testing"

	"github.com/holdfast-ha/holdfast/framework"
)

func TestDuplicate(t *testing.T) {
	proveLinkFault(t, Duplicate, map[string]string{"share": "50%"}, framework.Impairment{Duplicate: 0.5})
}
