package fault

import (
	"crypto/x509"
	"errors"

	"github.com/holdfast-ha/holdfast/framework"
)

// CertWrongNames makes a component serve with a certificate for other names.
var CertWrongNames Fault = &badCertificate{
	name:    "cert-wrong-names",
	summary: "makes a component serve with a certificate that carries neither the node's nor the balancer's name and address",
	defect:  framework.CertificateWrongNames,
	is: func(err error) bool {
		var host x509.HostnameError
		return errors.As(err, &host)
	},
	forgive: func(_ *x509.Certificate, o *x509.VerifyOptions) {
		o.DNSName = ""
	},
}
