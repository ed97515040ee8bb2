// Package keyless signs a bundle with Sigstore and an identity, such as a CI workflow
// or a person's account: a CA issues a certificate, valid for minutes, for a key that is
// discarded, and a log or a timestamp authority states when the signature was made. Verifying
// needs no network: the reader's trusted root has the keys of these services.
//
// A signing config names the services that sign. Both files have the format of Sigstore's own
// tools. The tests run the services in their own process.
package keyless

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/sigstore/sigstore-go/pkg/bundle"
	"github.com/sigstore/sigstore-go/pkg/root"
	"github.com/sigstore/sigstore-go/pkg/sign"
	"github.com/sigstore/sigstore-go/pkg/verify"
	"google.golang.org/protobuf/encoding/protojson"

	holdfast "github.com/holdfast-ha/holdfast/reports/bundle"
)

// Suffix is appended to a file's name to name its signature.
const Suffix = ".sigstore.json"

// ErrServices is in the error of a Sign whose services failed to sign.
var ErrServices = errors.New("the services did not sign it")

// ErrExpected is in the error of a Verify that says nothing about the signature: it cannot be verified
// against what the reader expects.
var ErrExpected = errors.New("nothing to verify the signature against")

// limit bounds each request to a service.
const limit = 30 * time.Second

// Sign signs a file with the services of a signing config, in the name of the identity in an
// OpenID Connect token, and writes the signature beside the file. It states the predicate of the
// file.
func Sign(ctx context.Context, file string, p holdfast.Predicate, signingConfig, token string) error {
	config, err := root.NewSigningConfigFromPath(signingConfig)
	if err != nil {
		return fmt.Errorf("failed to read the signing config %s: %w", signingConfig, err)
	}
	options, err := services(config)
	if err != nil {
		return fmt.Errorf("failed to choose services from the signing config %s: %w", signingConfig, err)
	}
	options.Context, options.CertificateProviderOptions = ctx, &sign.CertificateProviderOptions{IDToken: token}
	sum, err := holdfast.Digest(file)
	if err != nil {
		return fmt.Errorf("failed to sign %s: %w", file, err)
	}
	payload, err := holdfast.Statement(map[string]string{filepath.Base(file): sum}, p)
	if err != nil {
		return fmt.Errorf("failed to sign %s: %w", file, err)
	}
	keys, err := sign.NewEphemeralKeypair(nil)
	if err != nil {
		return fmt.Errorf("failed to make a key: %w", err)
	}
	signed, err := sign.Bundle(&sign.DSSEData{Data: payload, PayloadType: holdfast.PayloadType}, keys, *options)
	if err != nil {
		return fmt.Errorf("failed to sign %s: %w: %w", file, ErrServices, err)
	}
	text, err := protojson.Marshal(signed)
	if err == nil {
		err = os.WriteFile(file+Suffix, text, 0o644)
	}
	if err != nil {
		return fmt.Errorf("failed to write the signature of %s: %w", file, err)
	}
	return nil
}

// services returns clients for the services of a signing config.
func services(config *root.SigningConfig) (*sign.BundleOptions, error) {
	options, now := &sign.BundleOptions{}, time.Now()
	fulcio, err := root.SelectService(config.FulcioCertificateAuthorityURLs(), sign.FulcioAPIVersions, now)
	if err != nil {
		return nil, fmt.Errorf("no CA: %w", err)
	}
	options.CertificateProvider = sign.NewFulcio(&sign.FulcioOptions{BaseURL: fulcio.URL, Timeout: limit, Retries: 1})
	if all := config.TimestampAuthorityURLs(); len(all) > 0 {
		chosen, err := root.SelectServices(all, config.TimestampAuthorityURLsConfig(), sign.TimestampAuthorityAPIVersions, now)
		if err != nil {
			return nil, fmt.Errorf("timestamp authorities: %w", err)
		}
		for _, s := range chosen {
			options.TimestampAuthorities = append(options.TimestampAuthorities, sign.NewTimestampAuthority(&sign.TimestampAuthorityOptions{URL: s.URL, Timeout: limit, Retries: 1}))
		}
	}
	if all := config.RekorLogURLs(); len(all) > 0 {
		chosen, err := root.SelectServices(all, config.RekorLogURLsConfig(), sign.RekorAPIVersions, now)
		if err != nil {
			return nil, fmt.Errorf("transparency logs: %w", err)
		}
		for _, s := range chosen {
			options.TransparencyLogs = append(options.TransparencyLogs, sign.NewRekor(&sign.RekorOptions{BaseURL: s.URL, Timeout: limit, Retries: 1, Version: s.MajorAPIVersion}))
		}
	}
	if len(options.TimestampAuthorities)+len(options.TransparencyLogs) == 0 {
		return nil, errors.New("it names neither a transparency log nor a timestamp authority, so that nothing would state when the signature was made")
	}
	return options, nil
}

// Verify verifies that the signature beside a file is of these bytes, in the name of an identity
// that an issuer vouches for, and by services of a trusted root, and returns what it states of the
// file. Each kind of log in the trusted root must have taken part, and a log or a timestamp
// authority must state the time.
func Verify(file, trustedRoot, identity, issuer string) (*holdfast.Predicate, error) {
	trusted, err := root.NewTrustedRootFromPath(trustedRoot)
	if err != nil {
		return nil, fmt.Errorf("%w: failed to read the trusted root %s: %w", ErrExpected, trustedRoot, err)
	}
	who, err := verify.NewShortCertificateIdentity(issuer, "", identity, "")
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrExpected, err)
	}
	signed, err := bundle.LoadJSONFromPath(file + Suffix)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s does not exist: %s was not signed with holdfast certify sign, or that file was left out", file+Suffix, filepath.Base(file))
	}
	if err != nil {
		return nil, fmt.Errorf("failed to read %s: %w", file+Suffix, err)
	}
	sum, err := holdfast.Digest(file)
	if err != nil {
		return nil, err
	}
	digest, err := hex.DecodeString(sum)
	if err != nil {
		return nil, err
	}
	options := []verify.VerifierOption{verify.WithObserverTimestamps(1)}
	if len(trusted.RekorLogs()) > 0 {
		options = append(options, verify.WithTransparencyLog(1))
	}
	if len(trusted.CTLogs()) > 0 {
		options = append(options, verify.WithSignedCertificateTimestamps(1))
	}
	verifier, err := verify.NewVerifier(trusted, options...)
	if err != nil {
		return nil, fmt.Errorf("%w: trusted root %s: %w", ErrExpected, trustedRoot, err)
	}
	result, err := verifier.Verify(signed, verify.NewPolicy(verify.WithArtifactDigest("sha256", digest), verify.WithCertificateIdentity(who)))
	if err != nil {
		return nil, fmt.Errorf("%s does not show that %s, whom %s vouches for, signed %s: %w", filepath.Base(file+Suffix), identity, issuer, filepath.Base(file), err)
	}
	if result.Statement == nil {
		return nil, fmt.Errorf("%s signs %s but states nothing about it", filepath.Base(file+Suffix), filepath.Base(file))
	}
	stated, err := protojson.Marshal(result.Statement.Predicate)
	if err != nil {
		return nil, fmt.Errorf("failed to read %s: %w", file+Suffix, err)
	}
	return &holdfast.Predicate{Type: result.Statement.PredicateType, Body: json.RawMessage(stated)}, nil
}
