package main

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/holdfast-ha/holdfast/reports/keyless"
	"github.com/holdfast-ha/holdfast/suites/certify"
)

// tokenVariable is the environment variable from which Sigstore's tools read the token.
const tokenVariable = "SIGSTORE_ID_TOKEN"

// signature is what certify sign prints as JSON.
type signature struct {
	// Signature is the file that was written.
	Signature string `json:"signature"`
}

func newCertifySignCommand() *cobra.Command {
	var config, token string
	cmd := &cobra.Command{
		Use:   "sign BUNDLE",
		Short: "Sign a bundle with an OpenID Connect identity, through Sigstore",
		Long: `Sign a bundle with the identity of, for example, a CI workflow, in addition to the key
that it is already signed with. A Sigstore CA issues a certificate, valid for minutes, for an
ephemeral key, and a transparency log or a timestamp authority states when it was used. The
signature is a file beside the bundle, BUNDLE` + keyless.Suffix + `; holdfast verify --identity
verifies it, offline.

--signing-config names the services, in a file of Sigstore's own format. The identity is that
of an OpenID Connect token, which is valid for minutes: request it when the bundle is done.

Exit codes: 0 signed; 1 the bundle is not valid; 2 bad input, such as a missing token; 3 the
services did not sign it, or it could not be unpacked.`,
		Example: `  SIGSTORE_ID_TOKEN=... holdfast certify sign results/20261121-080000/bundle.tar --signing-config signing_config.json`,
		Args:    arguments("BUNDLE"),
	}
	cmd.Flags().StringVar(&config, "signing-config", "signing_config.json", "`file` that names the services to sign with")
	cmd.Flags().StringVar(&token, "identity-token", "", "`file` of the token (default the environment variable "+tokenVariable+")")
	output := addOutputFlag[signature](cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		text := os.Getenv(tokenVariable)
		if token != "" {
			data, err := os.ReadFile(token)
			if err != nil {
				return exitWith(exitUsage, fmt.Errorf("failed to read the identity token: %w", err))
			}
			text = string(data)
		}
		if text = strings.TrimSpace(text); text == "" {
			return usageError("no identity token: name its file with --identity-token, or set %s", tokenVariable)
		}
		err := certify.Sign(cmd.Context(), args[0], config, text)
		if bad, ok := errors.AsType[*certify.BundleError](err); ok {
			return bundleError(args[0], bad.Err)
		}
		if err != nil && !errors.Is(err, keyless.ErrServices) {
			err = exitWith(exitUsage, err)
		}
		if err != nil {
			return err
		}
		return output.printf(cmd, signature{args[0] + keyless.Suffix}, "%s\n", args[0]+keyless.Suffix)
	}
	return cmd
}
