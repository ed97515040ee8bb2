package fault

import (
	"testing"

	"github.com/holdfast-ha/holdfast/framework"
)

func TestLoss(t *testing.T) {
	proveLinkFault(t, Loss, map[string]string{"share": "1"}, framework.Impairment{Loss: 1})
}
