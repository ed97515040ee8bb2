package fault

import (
	"testing"

	"github.com/holdfast-ha/holdfast/framework"
)

func TestCertWrongNames(t *testing.T) {
	t.Parallel()
	testBadCertificate(t, CertWrongNames, framework.CertificateWrongNames)
}
