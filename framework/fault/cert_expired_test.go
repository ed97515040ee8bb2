package fault

import (
	"testing"

	"github.com/holdfast-ha/holdfast/framework"
)

func TestCertExpired(t *testing.T) { testBadCertificate(t, CertExpired, framework.CertificateExpired) }
