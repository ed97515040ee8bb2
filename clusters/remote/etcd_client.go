package remote

import (
	"context"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"al.essio.dev/pkg/shellescape"

	"github.com/holdfast-ha/holdfast/clusters/agent"
	"github.com/holdfast-ha/holdfast/framework"
)

// A host of an external etcd has no API server, whose certificate for etcd an agent would use. It
// uses another one that is there and that etcd accepts, so that no key has to leave a machine.

// keyPair is a certificate and its key.
type keyPair struct{ cert, key string }

// keyPairs returns what a host of etcd may have, by path: kubeadm's certificates for health checks
// and for API servers, and the member's own.
func (f *found) keyPairs(ca string) (all []keyPair) {
	dir := filepath.Dir(ca)
	for _, name := range []string{filepath.Join(dir, "healthcheck-client"), filepath.Join(filepath.Dir(dir), "apiserver-etcd-client")} {
		all = append(all, keyPair{name + ".crt", name + ".key"})
	}
	for _, prefix := range []string{"", "peer-"} {
		if p := (keyPair{f.file(framework.Etcd, prefix+"cert-file"), f.file(framework.Etcd, prefix+"key-file")}); p.cert != "" && p.key != "" {
			all = append(all, p)
		}
	}
	return all
}

// chooseClient sets how clients on the host authenticate to its member: with the first certificate
// that etcd accepts.
func (f *found) chooseClient(ctx context.Context, s shell) error {
	url := memberURL(f.processes[framework.Etcd], f.node.Address)
	if strings.HasPrefix(url, "http:") {
		return nil
	}
	ca := f.file(framework.Etcd, "trusted-ca-file")
	if ca == "" {
		return fmt.Errorf("etcd on %s serves TLS at %s without --trusted-ca-file, so holdfast cannot verify its certificate", f.node.Name, url)
	}
	pairs := f.keyPairs(ca)
	out, err := s.run(ctx, printFiles(ca, pairs))
	if err != nil {
		return fmt.Errorf("failed to read the certificates of etcd: %w", err)
	}
	p, err := accepted(parseFiles(out), ca, pairs, time.Now())
	if err != nil {
		return fmt.Errorf("no certificate on %s authenticates a client to its etcd: %w; put one there, such as kubeadm's %s and its key", f.node.Name, err, pairs[0].cert)
	}
	f.client = agent.EtcdClient{CA: ca, Cert: p.cert, Key: p.key}
	return nil
}

// printFiles returns the script that prints a CA's certificate and those that have their key, if
// they exist, one a line.
func printFiles(ca string, pairs []keyPair) string {
	script := `pr() { [ ! -f "$1" ] || [ ! -r "$2" ] || echo "file $(base64 <"$1" | tr -d '\n') $1"; }` + "\n"
	for _, p := range append([]keyPair{{ca, ca}}, pairs...) {
		script += "pr " + shellescape.Quote(p.cert) + " " + shellescape.Quote(p.key) + "\n"
	}
	return script
}

// parseFiles returns the content of files by path. Other lines, such as a banner, are ignored.
func parseFiles(out string) map[string][]byte {
	all := map[string][]byte{}
	for line := range strings.Lines(out) {
		fields := strings.SplitN(strings.TrimSuffix(line, "\n"), " ", 3)
		if len(fields) < 3 || fields[0] != "file" {
			continue
		}
		if text, err := base64.StdEncoding.DecodeString(fields[1]); err == nil {
			all[fields[2]] = text
		}
	}
	return all
}

// accepted returns the first key pair whose certificate etcd accepts from clients: its CA signed
// it, for client authentication, and it is valid.
func accepted(files map[string][]byte, ca string, pairs []keyPair, now time.Time) (keyPair, error) {
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(files[ca]) {
		return keyPair{}, fmt.Errorf("--trusted-ca-file %s has no certificate", ca)
	}
	var problems []error
	for _, p := range pairs {
		text, ok := files[p.cert]
		if !ok {
			problems = append(problems, fmt.Errorf("%s does not exist, or its key %s does not", p.cert, p.key))
			continue
		}
		if err := verifiesClient(text, roots, now); err != nil {
			problems = append(problems, fmt.Errorf("%s: %w", p.cert, err))
			continue
		}
		return p, nil
	}
	return keyPair{}, errors.Join(problems...)
}

// verifiesClient returns an error unless a server with these roots accepts a certificate, the first
// one of a file, from a client.
func verifiesClient(text []byte, roots *x509.CertPool, now time.Time) error {
	block, rest := pem.Decode(text)
	if block == nil {
		return errors.New("it has no certificate")
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return err
	}
	between := x509.NewCertPool()
	between.AppendCertsFromPEM(rest)
	_, err = cert.Verify(x509.VerifyOptions{Roots: roots, Intermediates: between, CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	return err
}
