package fault

import (
	"crypto/x509"
	"errors"

	"github.com/holdfast-ha/holdfast/framework"
)

// CertWrongNames makes a component serve with a certificate for other names.
var CertWrongNames = onCertificates(&Fault{
	Name:    "cert-wrong-names",
	Summary: "makes a component serve with a certificate that carries neither the node's nor the balancer's name and address",
}, badCertificate{
	defect: framework.CertificateWrongNames,
	is: func(err error) bool {
		return errors.As(err, new(x509.HostnameError))
	},
	forgive: func(_ *x509.Certificate, o *x509.VerifyOptions) {
		o.DNSName = ""
	},
})
