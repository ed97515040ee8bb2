package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/spf13/cobra"

	"github.com/holdfast-ha/holdfast/reports/bundle"
)

// keyFile is the private key that certify signs with by default.
const keyFile = "holdfast.key"

// keyPair is what keygen prints as JSON: the files of the keys, and the public key's ID.
type keyPair struct {
	Private string `json:"private"`
	Public  string `json:"public"`
	ID      string `json:"id"`
}

func newKeygenCommand() *cobra.Command {
	out := keyFile
	cmd := &cobra.Command{
		Use:   "keygen",
		Short: "Generate a key pair to sign bundles with",
		Long: `Generate an Ed25519 key to sign bundles with, and, in a file of the same name plus .pub,
the public key to verify them with. Existing files are not overwritten.`,
		Example: `  holdfast keygen
  holdfast keygen --out ~/keys/vendor.key`,
	}
	cmd.Flags().StringVar(&out, "out", keyFile, "`file` for the private key")
	output := addOutputFlag[keyPair](cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		private, public, err := bundle.GenerateKey()
		if err != nil {
			return err
		}
		key, err := bundle.ParseKey(public)
		if err != nil {
			return err
		}
		made := keyPair{out, out + ".pub", key.ID}
		if err := writeKey(made.Private, private, 0o600); err != nil {
			return err
		}
		if err := writeKey(made.Public, public, 0o644); err != nil {
			// Without its public key the private one is of no use.
			return errors.Join(err, os.Remove(made.Private))
		}
		return output.printf(cmd, made, "%s is the private key: keep it secret\n%s is the public key, for those who verify signatures\nkey %s\n", made.Private, made.Public, made.ID)
	}
	return cmd
}

// writeKey writes a new file, or none.
func writeKey(name string, data []byte, mode os.FileMode) error {
	file, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if errors.Is(err, fs.ErrExist) {
		return usageError("%s exists, and a lost key cannot be recovered: name another file with --out", name)
	}
	if err == nil {
		_, err = file.Write(data)
		if err = errors.Join(err, file.Close()); err != nil {
			err = errors.Join(err, os.Remove(name))
		}
	}
	if err != nil {
		return exitWith(exitUsage, fmt.Errorf("failed to write a key: %w", err))
	}
	return nil
}
