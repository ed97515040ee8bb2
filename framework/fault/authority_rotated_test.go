package fault

import (
	"testing"

	"github.com/holdfast-ha/holdfast/framework"
)

func TestAuthorityRotated(t *testing.T) {
	t.Parallel()
	testBadCertificate(t, AuthorityRotated, framework.CertificateUntrusted)
}
