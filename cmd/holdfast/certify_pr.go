package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/holdfast-ha/holdfast/suites/certify"
)

// submitted is what certify pr prints as JSON.
type submitted struct {
	// Submission is the directory that was made.
	Submission string `json:"submission"`
}

func newCertifyPRCommand() *cobra.Command {
	var signers signers
	var product, out string
	cmd := &cobra.Command{
		Use:   "pr BUNDLE",
		Short: "Create the folder that a product submits for the conformance profile",
		Long: fmt.Sprintf(`Create a folder to submit for %s: PRODUCT.yaml, README.md, the bundle, and
results.json, junit.xml, report.html and the other reports on it. The bundle is verified first,
with --key or --identity as in holdfast verify. The command refuses an incomplete
product file, and a bundle in which a required row did not pass or does not apply, or an
invariant is violated or not certified. It reads the folder again and checks it by the rules
of the CNCF AI conformance programme.

The product file contains the metadata of a checklist; conformance/%s.yaml is an empty
checklist. The product file and --out are checked before anything else.

Exit codes: 0 written; 1 the bundle is not valid, or cannot be submitted, for example
because a required row did not pass; 2 bad input, or a bundle made under other rules; 3 failed
to unpack or write.`, certify.Profile, certify.Profile),
		Example: `  holdfast certify pr results/20261121-080000/bundle.tar --product product.yaml --out submission`,
		Args:    arguments("BUNDLE"),
	}
	cmd.Flags().StringVar(&product, "product", "product.yaml", "`file` that describes the product")
	cmd.Flags().StringVar(&out, "out", "submission", "`directory` to create")
	signers.addFlags(cmd)
	output := addOutputFlag[submitted](cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		text, err := os.ReadFile(product)
		if err != nil {
			return exitWith(exitUsage, fmt.Errorf("failed to read the product's description: %w", err))
		}
		p, err := certify.ParseProduct(product, text)
		if err != nil {
			return exitWith(exitUsage, err)
		}
		if err := checkNewDir(out); err != nil {
			return err
		}
		v, err := signers.verify(cmd, args[0])
		if err != nil {
			return err
		}
		err = certify.Submission(out, args[0], p, v)
		if errors.Is(err, certify.ErrNotSubmittable) {
			return exitWith(exitFail, err)
		}
		if err != nil {
			return err
		}
		return output.printf(cmd, submitted{out}, "%s\n", out)
	}
	return cmd
}

// checkNewDir checks that --out names a directory that can be made.
func checkNewDir(dir string) error {
	switch _, err := os.Lstat(dir); {
	case err == nil:
		return usageError("%s exists: name a new directory with --out", dir)
	case !errors.Is(err, fs.ErrNotExist):
		return usageError("--out: %w; name another directory", err)
	}
	if _, err := os.Stat(filepath.Dir(filepath.Clean(dir))); err != nil {
		return usageError("--out %s: its parent directory cannot be used: %w", dir, err)
	}
	return nil
}
