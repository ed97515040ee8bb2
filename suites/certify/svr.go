package certify

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/holdfast-ha/holdfast/reports/bundle"
)

// SVRSuffix is the end of the name of the file with the signed outcome of a bundle's verification.
const SVRSuffix = ".svr.dsse.json"

// Sign signs that the bundle in a file holds, as verified with a version of holdfast, and returns
// the name of the file beside the bundle that has the statement: a simple verification result.
func (v *Verification) Sign(file, version string, key *bundle.Key) (string, error) {
	if !v.Holds() {
		return "", errors.New("an invalid bundle is not signed")
	}
	sum, err := bundle.Digest(file)
	if err != nil {
		return "", err
	}
	properties := []string{"HOLDFAST_BUNDLE_VERIFIED"}
	if v.Outcome.Certified {
		properties = append(properties, "HOLDFAST_CERTIFIED_"+v.Outcome.Class)
	}
	envelope, err := bundle.Sign(key, map[string]string{filepath.Base(file): sum}, bundle.Predicate{Name: "svr", Type: SVRType, Body: map[string]any{
		"verifier":    map[string]any{"id": "https://holdfast.dev/verify/" + version},
		"timeCreated": time.Now().UTC().Format(time.RFC3339),
		"properties":  properties,
	}})
	if err != nil {
		return "", err
	}
	to := file + SVRSuffix
	if err := os.WriteFile(to, envelope, 0o644); err != nil {
		return "", fmt.Errorf("failed to write the signed outcome: %w", err)
	}
	return to, nil
}
