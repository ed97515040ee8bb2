package main

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/holdfast-ha/holdfast/reports/bundle"
	"github.com/holdfast-ha/holdfast/suites/certify"
	"github.com/holdfast-ha/holdfast/suites/run"
)

func newVerifyCommand() *cobra.Command {
	var signers signers
	var sign string
	var seed uint64
	cmd := &cobra.Command{
		Use:   "verify BUNDLE",
		Short: "Verify the bundle of a certification, offline",
		Long: `Verify that no byte of a bundle from holdfast certify was changed since it was signed, that
it contains every experiment that its rows need, each exactly once, all from one run, and that
the records of these experiments give the verdicts that it states, under the rules of this
release of holdfast. The command refuses a bundle that was made under other rules.

A signature proves that the bundle is intact, and its key identifies the signer: obtain the
key from the signer, and name it with --key. With --identity the bundle must also be signed with that
identity (see holdfast certify sign), by services whose keys are in the --trusted-root file.
With --seed the bundle must come from a run with that seed, so the run began after you chose it.

--sign states the outcome in an in-toto statement of its own (a simple verification result)
beside the bundle, in BUNDLE.svr.dsse.json.

Exit codes: 0 the bundle is valid, 1 it is not, 2 bad input or made under other rules, 3 failed
to unpack it. A valid bundle does not mean that the cluster is certified: the bundle may state
that a row failed.`,
		Example: `  holdfast verify bundle.tar --key vendor.key.pub
  holdfast verify bundle.tar --identity ci@example.com --issuer https://accounts.example.com --trusted-root trusted_root.json
  holdfast verify bundle.tar --key vendor.key.pub --seed 4711
  holdfast verify bundle.tar --key vendor.key.pub --sign reviewer.key -o json`,
		Args: arguments("BUNDLE"),
	}
	signers.addFlags(cmd)
	cmd.Flags().StringVar(&sign, "sign", "", "`file` of your own private key, to sign the outcome with")
	cmd.Flags().Uint64Var(&seed, "seed", 0, "the `seed` that the run must have had")
	output := addOutputFlag[*certify.Verification](cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		var own *bundle.Key
		var err error
		if sign != "" {
			if own, err = loadSigner(cmd.Context(), sign); err != nil {
				return err
			}
		}
		v, err := signers.verify(cmd, args[0])
		if err != nil {
			return err
		}
		if cmd.Flags().Changed("seed") && v.Seed != seed {
			v.Problems = append(v.Problems, fmt.Sprintf("it is from a run with seed %d, and not with the expected one, %d", v.Seed, seed))
		}
		if err := output.print(cmd, v, v.Print); err != nil {
			return err
		}
		if !v.Holds() {
			return exitWith(exitFail, nil)
		}
		if own != nil {
			to, err := v.Sign(args[0], holdfastVersion(), own)
			if err != nil {
				return exitWith(exitUsage, err)
			}
			fmt.Fprintf(cmd.ErrOrStderr(), "holdfast: the outcome is in %s, signed with key %s\n", to, own.ID)
		}
		return nil
	}
	return cmd
}

// signers are the flags that say who must have signed a bundle.
type signers struct{ key, identity, issuer, trustedRoot string }

func (s *signers) addFlags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&s.key, "key", "", "`file` of the public key that the bundle must be signed with")
	cmd.Flags().StringVar(&s.identity, "identity", "", "email address or URI of the `identity` that must have signed the bundle")
	cmd.Flags().StringVar(&s.issuer, "issuer", "", "`URL` of the OpenID Connect issuer that vouches for it")
	cmd.Flags().StringVar(&s.trustedRoot, "trusted-root", "", "`file` with the keys of Sigstore's services, in Sigstore's own format")
	cmd.MarkFlagsRequiredTogether("identity", "issuer", "trusted-root")
}

// verify verifies the bundle in a file and who signed it; the command shows the progress.
func (s *signers) verify(cmd *cobra.Command, file string) (*certify.Verification, error) {
	var expected *bundle.Key
	if s.key != "" {
		var err error
		if expected, err = bundle.LoadKey(s.key); err != nil {
			return nil, exitWith(exitUsage, err)
		}
	}
	shown := newProgress(cmd.ErrOrStderr())
	v, err := certify.Verify(file, expected, func(scenario string) { shown.Status("verifying %s", scenario) })
	shown.Done()
	if err != nil {
		return nil, bundleError(file, err)
	}
	if s.identity != "" {
		if err := v.VerifyIdentity(file, s.trustedRoot, s.identity, s.issuer); err != nil {
			return nil, exitWith(exitUsage, err)
		}
	}
	return v, nil
}

// localErrors are errors of this machine's file systems and limits, which say nothing of a bundle.
var localErrors = []error{fs.ErrPermission, syscall.ENOSPC, syscall.EDQUOT, syscall.EROFS, syscall.EIO, syscall.EMFILE, syscall.ENFILE}

// bundleError adds the exit code to an error of a bundle, and what to do.
func bundleError(file string, err error) error {
	at, ok := errors.AsType[*fs.PathError](err)
	switch {
	case errors.Is(err, certify.ErrOtherRules):
		return exitWith(exitUsage, err)
	case ok && at.Path == file:
		return usageError("failed to read the bundle %s: %w; a bundle is the file %s that holdfast certify writes", file, at.Err, certify.BundleFile)
	case slices.ContainsFunc(localErrors, func(local error) bool { return errors.Is(err, local) }), errors.Is(err, fs.ErrNotExist) && !errors.Is(err, run.ErrNoResults):
		return fmt.Errorf("failed to unpack %s: %w (name another directory for temporary files in TMPDIR)", file, err)
	}
	return exitWith(exitFail, fmt.Errorf("%s is not valid: %w", file, err))
}
