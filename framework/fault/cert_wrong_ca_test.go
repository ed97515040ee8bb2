package fault

import (
	"testing"

	"github.com/holdfast-ha/holdfast/framework"
)

func TestCertWrongCA(t *testing.T) {
	t.Parallel()
	testBadCertificate(t, CertWrongCA, framework.CertificateUntrusted)
}
