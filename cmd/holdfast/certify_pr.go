package main

import (
	"fmt"
	"io"
	"os"

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
		Short: "Make the folder that a product submits for the conformance profile",
		Long: fmt.Sprintf(`Make a folder to submit for %s: PRODUCT.yaml, README.md, the bundle, and
results.json, junit.xml, report.html and the other reports on it. The bundle is verified first,
with --key or --identity as by holdfast verify. The command refuses a bundle in which a
required row did not pass, and an incomplete product file.

The product file has the metadata of a checklist; conformance/%s.yaml is one that
is empty.`, certify.Profile, certify.Profile),
		Example: `  holdfast certify pr results/20261121-080000/bundle.tar --product product.yaml --out submission`,
		Args:    cobra.ExactArgs(1),
	}
	cmd.Flags().StringVar(&product, "product", "product.yaml", "`file` that describes the product")
	cmd.Flags().StringVar(&out, "out", "submission", "`directory` to make")
	signers.addFlags(cmd)
	output := addOutputFlag[submitted](cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		text, err := os.ReadFile(product)
		if err != nil {
			return exitWith(exitUsage, fmt.Errorf("failed to read the product's description: %w", err))
		}
		p, err := certify.ParseProduct(text)
		if err != nil {
			return exitWith(exitUsage, fmt.Errorf("%s: %w", product, err))
		}
		v, err := signers.verify(cmd, args[0])
		if err != nil {
			return err
		}
		if err := certify.Submission(out, args[0], p, v); err != nil {
			return exitWith(exitUsage, err)
		}
		return output.print(cmd, submitted{out}, func(w io.Writer) error {
			_, err := fmt.Fprintln(w, out)
			return err
		})
	}
	return cmd
}
