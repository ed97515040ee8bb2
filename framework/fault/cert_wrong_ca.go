package fault

import (
	"crypto/x509"
	"errors"

	"github.com/holdfast-ha/holdfast/framework"
)

// CertWrongCA makes a component serve with a certificate of a new CA
// that its clients do not trust yet.
var CertWrongCA = onCertificates(&Fault{
	Name:    "cert-wrong-ca",
	Summary: "makes a component serve with a certificate of a new CA that its clients do not trust yet",
}, badCertificate{
	defect: framework.CertificateUntrusted,
	is: func(err error) bool {
		return errors.As(err, new(x509.UnknownAuthorityError))
	},
	forgive: func(leaf *x509.Certificate, o *x509.VerifyOptions) {
		o.Roots = x509.NewCertPool()
		o.Roots.AddCert(leaf)
	},
})
