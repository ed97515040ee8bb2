package fault

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"sync"
	"time"
)

// startWebhook serves an admission webhook at an address, with its own certificate. It holds
// every request until allow is called, and then allows it.
func startWebhook(address net.IP) (*webhookServer, error) {
	listener, err := net.ListenTCP("tcp", &net.TCPAddr{IP: address})
	if err != nil {
		return nil, fmt.Errorf("failed to listen as a webhook: %w", err)
	}
	certificate, authority, err := selfSigned(address)
	if err != nil {
		_ = listener.Close()
		return nil, fmt.Errorf("failed to make the webhook's certificate: %w", err)
	}
	s := &webhookServer{address: address, port: listener.Addr().(*net.TCPAddr).Port, authority: authority, allowing: make(chan struct{})}
	s.allow = sync.OnceFunc(func() { close(s.allowing) })
	s.Server = &http.Server{Handler: http.HandlerFunc(s.answer), ErrorLog: log.New(io.Discard, "", 0),
		TLSConfig: &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12}}
	go func() { _ = s.ServeTLS(listener, "", "") }()
	return s, nil
}

func (s *webhookServer) answer(w http.ResponseWriter, r *http.Request) {
	var review struct {
		Request struct {
			UID string `json:"uid"`
		} `json:"request"`
	}
	if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	s.asked.Add(1)
	select {
	case <-s.allowing:
	case <-r.Context().Done():
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
		"response": map[string]any{"uid": review.Request.UID, "allowed": true}})
}

// selfSigned makes a certificate for an address that is its own CA.
func selfSigned(address net.IP) (certificate tls.Certificate, authority []byte, err error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return certificate, nil, err
	}
	now := time.Now()
	template := &x509.Certificate{SerialNumber: big.NewInt(now.UnixNano()), Subject: pkix.Name{CommonName: "holdfast webhook"},
		// Clocks may differ, and some faults move them.
		NotBefore: now.AddDate(-1, 0, 0), NotAfter: now.AddDate(1, 0, 0), IPAddresses: []net.IP{address},
		IsCA: true, BasicConstraintsValid: true, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return certificate, nil, err
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key},
		pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), nil
}
