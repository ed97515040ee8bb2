package fault

import (
	"testing"

	"github.com/holdfast-ha/holdfast/framework"
)

func TestAuthorityRotated(t *testing.T) {
	testBadCertificate(t, AuthorityRotated, framework.CertificateUntrusted)
}
