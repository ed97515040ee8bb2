package fault

import (
	"testing"

	"github.com/holdfast-ha/holdfast/framework"
)

func TestDNSDead(t *testing.T) {
	proveNames(t, DNSDead, nil, framework.NameDisturbance{Silent: true})
}
