package fault

import (
	"testing"

	"github.com/holdfast-ha/holdfast/framework"
)

func TestCertWrongNames(t *testing.T) {
	testBadCertificate(t, CertWrongNames, framework.CertificateWrongNames)
}
