package fault

import (
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/framework"
)

func TestCut(t *testing.T) {
	proveLinkFault(t, Cut, nil, framework.Impairment{Cut: true})
	proveLinkFault(t, Cut, map[string]string{"flap": "1s/500ms"},
		framework.Impairment{Cut: true, FlapOn: time.Second, FlapOff: 500 * time.Millisecond})
}
