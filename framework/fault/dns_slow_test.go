package fault

import (
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/framework"
)

func TestDNSSlow(t *testing.T) {
	proveNames(t, DNSSlow, map[string]string{"delay": "100ms"}, framework.NameDisturbance{Delay: time.Second})
}
