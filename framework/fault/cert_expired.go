package fault

import (
	"crypto/x509"
	"errors"
	"time"

	"github.com/holdfast-ha/holdfast/framework"
)

// CertExpired makes a component serve with a certificate that has expired.
var CertExpired = onCertificates(&Fault{
	Name:    "cert-expired",
	Summary: "makes a component serve with a certificate that has expired",
}, badCertificate{
	defect: framework.CertificateExpired,
	is: func(err error) bool {
		var invalid x509.CertificateInvalidError
		return errors.As(err, &invalid) && invalid.Reason == x509.Expired
	},
	forgive: func(leaf *x509.Certificate, o *x509.VerifyOptions) {
		o.CurrentTime = leaf.NotAfter.Add(-time.Second)
	},
})
