package fault

import (
	"net/netip"
	"testing"

	"github.com/holdfast-ha/holdfast/framework"
)

func TestDNSWrong(t *testing.T) {
	t.Run("no such name", func(t *testing.T) {
		proveNames(t, DNSWrong, nil, framework.NameDisturbance{NotFound: true})
	})
	t.Run("another address", func(t *testing.T) {
		proveNames(t, DNSWrong, map[string]string{"address": "10.9.9.9", "names": "api.fake"},
			framework.NameDisturbance{Address: netip.MustParseAddr("10.9.9.9")})
	})
}
