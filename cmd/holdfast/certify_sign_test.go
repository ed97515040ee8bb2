package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/holdfast-ha/holdfast/reports/bundle"
	"github.com/holdfast-ha/holdfast/reports/keyless"
	"github.com/holdfast-ha/holdfast/reports/keyless/keylesstest"
	"github.com/holdfast-ha/holdfast/suites/certify"
)

// TestCertifySign signs a bundle with its own services and a token from the environment.
func TestCertifySign(t *testing.T) {
	services, dir := keylesstest.New(t), t.TempDir()
	private, _, err := bundle.GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	key, err := bundle.ParseKey(private)
	if err != nil {
		t.Fatal(err)
	}
	file, from := filepath.Join(dir, certify.BundleFile), t.TempDir()
	if err := os.WriteFile(filepath.Join(from, "plan.json"), []byte("{}"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := bundle.Write(file, from, key, bundle.Predicate{Name: "test-result", Type: certify.TestResultType, Body: map[string]any{"result": "PASSED"}}); err != nil {
		t.Fatal(err)
	}
	t.Setenv(tokenVariable, keylesstest.Token("ci@example.com"))
	c := commandLine{t, t.TempDir()}
	stdout, _ := c.do(exitPass, "certify", "sign", file, "--signing-config", services.SigningConfig(t))
	if stdout != file+keyless.Suffix+"\n" {
		t.Errorf("printed %q", stdout)
	}
	if _, err := keyless.Verify(file, services.TrustedRoot(t), "ci@example.com", keylesstest.Issuer); err != nil {
		t.Error(err)
	}
	// The bundle has no experiments, so verify refuses it, but not for its signature.
	_, stderr := c.do(exitFail, "verify", file, "--identity", "ci@example.com", "--issuer", keylesstest.Issuer, "--trusted-root", services.TrustedRoot(t))
	c.contains(stderr, "no statement of type "+certify.VerdictsType)
	t.Setenv(tokenVariable, "no token")
	_, stderr = c.do(exitInconclusive, "certify", "sign", file, "--signing-config", services.SigningConfig(t))
	c.contains(stderr, "the services did not sign it")
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	c.do(exitUsage, "certify", "sign", file, "--signing-config", services.SigningConfig(t))
}
