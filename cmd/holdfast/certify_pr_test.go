package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/clusters"
	"github.com/holdfast-ha/holdfast/clusters/local"
	"github.com/holdfast-ha/holdfast/reports/bundle"
	"github.com/holdfast-ha/holdfast/suites/certify"
	"github.com/holdfast-ha/holdfast/suites/run"
)

// TestCertifyPRRefuses submits a bundle without any record, which is read but does not hold: it is
// not bad input, even if another key is expected.
func TestCertifyPRRefuses(t *testing.T) {
	dir := t.TempDir()
	spec := clusters.Default()
	spec.SetNodes(3)
	rows := []string{"HA-QR-005"}
	p := run.New(local.Provider{}, spec, run.InTurn(spec, certify.Scenarios(rows, certify.Breaking), certify.Turns, nil), 7, "v1")
	p.Rows, p.Profile, p.Ended = rows, certify.Breaking, time.Now()
	if err := p.Divide(local.Provider{}, 1); err != nil {
		t.Fatal(err)
	}
	if err := p.Save(dir); err != nil {
		t.Fatal(err)
	}
	v, err := run.Judge(dir)
	if err != nil {
		t.Fatal(err)
	}
	private, public, err := bundle.GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	key, err := bundle.ParseKey(private)
	if err != nil {
		t.Fatal(err)
	}
	_, other, err := bundle.GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	tool, err := certify.ThisTool("v1")
	if err != nil {
		t.Fatal(err)
	}
	file, err := certify.Bundle(dir, v, certify.Judge(v), tool, key)
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string][]byte{"key.pub": public, "other.pub": other, "product.yaml": []byte(`metadata:
  platformName: Example Platform
  platformVersion: "1.0"
  vendorName: Example
  websiteUrl: https://example.com
  documentationUrl: https://example.com/docs
  productLogoUrl: https://example.com/logo.svg
  description: A control plane of three nodes.
  contactEmailAddress: ha@example.com
  k8sConformanceUrl: https://github.com/cncf/k8s-conformance/tree/master/v1.37/example
`)} {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	c := commandLine{t, t.TempDir()}
	const otherSeed = "a run with seed 7, and not with the expected one"
	if stdout, _ := c.do(exitFail, "verify", file, "--seed", "8"); !strings.Contains(stdout, otherSeed) {
		t.Errorf("with another seed: %s", stdout)
	}
	if stdout, _ := c.do(exitFail, "verify", file, "--seed", "7"); strings.Contains(stdout, otherSeed) {
		t.Errorf("with its own seed: %s", stdout)
	}
	for name, want := range map[string]string{"key.pub": "has no record", "other.pub": "not with the expected one"} {
		out := filepath.Join(dir, "submission")
		_, stderr := c.do(exitFail, "certify", "pr", file, "--key", filepath.Join(dir, name), "--product", filepath.Join(dir, "product.yaml"), "--out", out)
		c.contains(stderr, "cannot be submitted", "the bundle is not valid", want, "HA-QR-005 is required")
		if _, err := os.Stat(out); err == nil {
			t.Error("a submission was made")
		}
	}
}
