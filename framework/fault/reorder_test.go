package fault

import (
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/framework"
)

func TestReorder(t *testing.T) {
	proveLinkFault(t, Reorder, nil, framework.Impairment{Reorder: 0.1})
	proveLinkFault(t, Reorder, map[string]string{"flap": "50ms/40ms"}, framework.Impairment{Reorder: 0.1, FlapOn: 50 * time.Millisecond, FlapOff: 40 * time.Millisecond})
}
