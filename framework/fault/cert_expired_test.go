package fault

import (
	"testing"

	"github.com/holdfast-ha/holdfast/framework"
)

func TestCertExpired(t *testing.T) {
	t.Parallel()
	testBadCertificate(t, CertExpired, framework.CertificateExpired)
}
