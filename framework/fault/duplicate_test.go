package fault

import (
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/framework"
)

func TestDuplicate(t *testing.T) {
	proveLinkFault(t, Duplicate, map[string]string{"share": "50%"}, framework.Impairment{Duplicate: 0.5})
	proveLinkFault(t, Duplicate, map[string]string{"share": "50%", "flap": "50ms/40ms"}, framework.Impairment{Duplicate: 0.5, FlapOn: 50 * time.Millisecond, FlapOff: 40 * time.Millisecond})
}
