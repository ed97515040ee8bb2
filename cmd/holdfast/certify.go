package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-ha/holdfast/clusters"
	"github.com/holdfast-ha/holdfast/reports/bundle"
	"github.com/holdfast-ha/holdfast/scenarios"
	"github.com/holdfast-ha/holdfast/suites/certify"
	"github.com/holdfast-ha/holdfast/suites/run"
)

// keyFile is the private key that certify signs with by default.
const keyFile = "holdfast.key"

func newKeygenCommand() *cobra.Command {
	out := keyFile
	cmd := &cobra.Command{
		Use:   "keygen",
		Short: "Make a pair of keys to sign bundles with",
		Long: `Make an Ed25519 key to sign bundles with, and beside it the public key, with .pub at the
end of its name, for those who verify them. Files that exist stay as they are.`,
		Example: `  holdfast keygen
  holdfast keygen --out ~/keys/vendor.key`,
		Args: cobra.NoArgs,
	}
	cmd.Flags().StringVar(&out, "out", keyFile, "`file` for the private key")
	output := addOutputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		private, public, err := bundle.GenerateKey()
		if err != nil {
			return err
		}
		key, err := bundle.ParseKey(public)
		if err != nil {
			return err
		}
		made := struct {
			Private string `json:"private"`
			Public  string `json:"public"`
			ID      string `json:"id"`
		}{out, out + ".pub", key.ID}
		for _, f := range []struct {
			name string
			data []byte
			mode os.FileMode
		}{{made.Public, public, 0o644}, {made.Private, private, 0o600}} {
			file, err := os.OpenFile(f.name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, f.mode)
			if errors.Is(err, fs.ErrExist) {
				return usageError("%s exists, and a key that is lost cannot be made again: name another file with --out", f.name)
			}
			if err == nil {
				_, err = file.Write(f.data)
				err = errors.Join(err, file.Close())
			}
			if err != nil {
				return exitWith(exitUsage, fmt.Errorf("failed to write a key: %w", err))
			}
		}
		if *output == outputJSON {
			return writeJSON(cmd.OutOrStdout(), made)
		}
		_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s signs: keep it secret\n%s is for those who verify what it signed\nkey %s\n", made.Private, made.Public, made.ID)
		return err
	}
	return cmd
}

func newCertifyCommand() *cobra.Command {
	var (
		f        clusterFlags
		rows     string
		key      string
		seed     uint64
		out      string
		resume   string
		attach   string
		parallel int
		dryRun   bool
	)
	cmd := &cobra.Command{
		Use:   "certify",
		Short: "Test a cluster for a certificate, and sign a bundle that anyone can verify",
		Long: fmt.Sprintf(`Run every scenario that the rows of a certificate take, at least %d times and with each
control-plane node as the victim in turn, and sign a bundle with the verdicts and with the
records that they are derived from. Anyone who has the bundle derives the verdicts again with
holdfast verify, offline.

--rows must (the default) is about all MUST rows of the catalogue, --rows conformance about
the rows that %s requires. With IDs a certificate is about these
alone, and says that it is a partial one.

A row is certified if it passed in all experiments, and if each node was their victim. One
that does not apply because of the cluster's design is counted apart; one that cannot be
tested here is not certified.

A certification that was interrupted or killed continues with --resume. The bundle has the
component logs, but no audit logs, and no keys, tokens or passwords.

Exit codes: 0 certified, 1 a row failed, 2 bad input, 3 not certified for another reason.`, certify.Turns, certify.Profile),
		Example: `  holdfast certify --rows conformance
  holdfast certify --rows HA-QR-005,HA-EP-003 --out results/trial
  holdfast certify --provider kind --attach theirs --rows conformance
  holdfast certify --resume results/20261121-080000
  holdfast certify --rows conformance --dry-run`,
		Args: cobra.NoArgs,
	}
	f.add(cmd, "cluster", "")
	flags := cmd.Flags()
	flags.StringVar(&rows, "rows", "must", "must, conformance, or IDs of requirements")
	flags.StringVar(&key, "key", keyFile, "`file` of the key to sign with; see holdfast keygen")
	flags.Uint64Var(&seed, "seed", 0, "seed of traffic and faults (default a random one, which is in the bundle)")
	flags.StringVar(&out, "out", "", "results directory; it must be new or empty (default results/DATE-TIME)")
	flags.StringVar(&resume, "resume", "", "results `directory` of a certification that ended early, to continue")
	flags.StringVar(&attach, "attach", "", "name of an existing cluster to take over for the run (provider kind only)")
	flags.IntVar(&parallel, "parallel", 0, "how many clusters at a time (default what cores and memory allow)")
	flags.BoolVar(&dryRun, "dry-run", false, "print what would be done and what it breaks, and do nothing")
	output := addOutputFlag(cmd)
	cmd.AddCommand(newCertifyPRCommand())

	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		var signer *bundle.Key
		if !dryRun {
			var err error
			if signer, err = bundle.LoadKey(key); err != nil {
				return exitWith(exitUsage, err)
			}
			// Hours of experiments must not end at a key that cannot sign.
			if _, err = signer.Sign(cmd.Context(), nil); err != nil {
				return usageError("%s is a public key, and signing takes the private one", key)
			}
		}
		var p *run.Plan
		var provider clusters.Provider
		var err error
		dir := resume
		if resume != "" {
			if p, provider, err = resumable(cmd, resume); err == nil && len(p.Rows) == 0 {
				err = usageError("the run in %s certifies nothing: continue it with holdfast run --resume %s", resume, resume)
			}
		} else {
			p, provider, err = certificationPlan(cmd, &f, rows, attach, parallel, seed)
			if dir = out; dir == "" && err == nil {
				dir = filepath.Join("results", p.Started.Format("20060102-150405"))
			}
		}
		if err != nil {
			return err
		}
		switch {
		case dryRun && resume != "":
			return printLeft(cmd, p, resume, *output)
		case dryRun:
			return printPlan(cmd, p, *output)
		case resume == "":
			if err := checkResultsDir(dir); err != nil {
				return err
			}
		}
		v, err := carryOut(cmd.Context(), cmd, provider, p, dir, resume != "")
		if err != nil {
			return err
		}
		tool, err := certify.ThisTool(holdfastVersion(), scenarios.Digest())
		if err != nil {
			return err
		}
		outcome := certify.Judge(v)
		file, err := certify.Bundle(dir, v, outcome, tool, signer)
		if err != nil {
			return err
		}
		if *output == outputJSON {
			err = writeJSON(cmd.OutOrStdout(), struct {
				*certify.Outcome
				Bundle string `json:"bundle"`
				Key    string `json:"key"`
			}{outcome, file, signer.ID})
		} else if err = outcome.Print(cmd.OutOrStdout()); err == nil {
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "Bundle: %s, signed with key %s\n%s\n", file, signer.ID, reportIn(dir))
		}
		if err != nil {
			return err
		}
		if code := outcome.ExitCode(); code != exitPass {
			return exitWith(code, nil)
		}
		return nil
	}
	return cmd
}

// certificationPlan returns the plan of a certification.
func certificationPlan(cmd *cobra.Command, f *clusterFlags, which, attach string, parallel int, seed uint64) (*run.Plan, clusters.Provider, error) {
	ids, err := certify.Select(which)
	if err != nil {
		return nil, nil, usageError("--rows: %w", err)
	}
	provider, err := providerNamed(f.provider)
	if err != nil {
		return nil, nil, err
	}
	spec, err := f.clusterOrAttach(cmd, provider, attach)
	if err != nil {
		return nil, nil, err
	}
	if why := provider.Lacks(spec); why != "" && attach == "" {
		return nil, nil, usageError("--provider %s: %s", f.provider, why)
	}
	chosen := run.Here(provider, spec, certify.Scenarios(ids))
	switch {
	case attach != "":
		chosen, parallel = run.AsItIs(spec, chosen), 1
	case f.described():
		chosen = run.AsDescribed(spec, chosen)
	}
	if parallel < 1 {
		parallel = run.Parallel(provider, spec)
	}
	if !cmd.Flags().Changed("seed") {
		seed = randomSeed()
	}
	p := run.New(provider, spec, run.InTurn(spec, chosen, certify.Turns, false), seed, holdfastVersion())
	p.Attach, p.Rows, p.Intensity = attach != "", ids, run.Intensity("")
	if err := p.Divide(provider, parallel); err != nil {
		return nil, nil, exitWith(exitUsage, err)
	}
	return p, provider, nil
}

func newVerifyCommand() *cobra.Command {
	var key, sign string
	cmd := &cobra.Command{
		Use:   "verify BUNDLE",
		Short: "Verify the bundle of a certification, offline",
		Long: `Verify a bundle that holdfast certify made: that no byte of it was changed since it was
signed, that it has each experiment that its rows take, once and from one run, and that the
records of these experiments give the verdicts that it states, by the rules of this holdfast.
A bundle that was made by other rules is refused.

A signature says that the bundle is whole; whose it is says the key, which its owner makes
known: name it with --key.

--sign states the outcome in an in-toto statement of its own (a simple verification result)
beside the bundle, in BUNDLE.svr.dsse.json.

Exit codes: 0 the bundle holds, 1 it does not, 2 bad input or made by other rules. That a
bundle holds does not mean that the cluster is certified: it may state that a row failed.`,
		Example: `  holdfast verify bundle.tar --key vendor.key.pub
  holdfast verify bundle.tar --key vendor.key.pub --sign reviewer.key -o json`,
		Args: cobra.ExactArgs(1),
	}
	cmd.Flags().StringVar(&key, "key", "", "`file` of the public key that the bundle must be signed with")
	cmd.Flags().StringVar(&sign, "sign", "", "`file` of your own private key, to sign the outcome with")
	output := addOutputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		var expected, own *bundle.Key
		var err error
		if key != "" {
			if expected, err = bundle.LoadKey(key); err != nil {
				return exitWith(exitUsage, err)
			}
		}
		if sign != "" {
			if own, err = bundle.LoadKey(sign); err != nil {
				return exitWith(exitUsage, err)
			}
		}
		shown := newProgress(cmd.ErrOrStderr())
		v, err := certify.Verify(args[0], expected, func(scenario string) { shown.Status("verifying %s", scenario) })
		shown.Done()
		switch {
		case errors.Is(err, certify.ErrOtherRules), errors.Is(err, fs.ErrNotExist):
			return exitWith(exitUsage, err)
		case err != nil:
			return exitWith(exitFail, fmt.Errorf("%s does not hold: %w", args[0], err))
		}
		if *output == outputJSON {
			err = writeJSON(cmd.OutOrStdout(), v)
		} else {
			err = v.Print(cmd.OutOrStdout())
		}
		if err != nil {
			return err
		}
		if !v.Holds() {
			return exitWith(exitFail, nil)
		}
		if own != nil {
			return signOutcome(cmd, args[0], v, own)
		}
		return nil
	}
	return cmd
}

// signOutcome signs that a bundle was verified.
func signOutcome(cmd *cobra.Command, file string, v *certify.Verification, own *bundle.Key) error {
	sum, err := bundle.Digest(file)
	if err != nil {
		return err
	}
	properties := []string{"HOLDFAST_BUNDLE_VERIFIED"}
	if v.Outcome.Certified {
		properties = append(properties, "HOLDFAST_CERTIFIED_"+v.Outcome.Class)
	}
	envelope, err := bundle.Sign(own, map[string]string{filepath.Base(file): sum}, bundle.Predicate{Name: "svr", Type: certify.SVRType, Body: map[string]any{
		"verifier":    map[string]any{"id": "https://holdfast.dev/verify/" + holdfastVersion()},
		"timeCreated": time.Now().UTC().Format(time.RFC3339),
		"properties":  slices.Clone(properties),
	}})
	if err != nil {
		return err
	}
	to := file + ".svr.dsse.json"
	if err := os.WriteFile(to, envelope, 0o644); err != nil {
		return exitWith(exitUsage, fmt.Errorf("failed to write the signed outcome: %w", err))
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "holdfast: the outcome is in %s, signed with key %s\n", to, own.ID)
	return nil
}

func newCertifyPRCommand() *cobra.Command {
	var product, out, key string
	cmd := &cobra.Command{
		Use:   "pr BUNDLE",
		Short: "Make the folder that a product submits for the conformance profile",
		Long: fmt.Sprintf(`Make a folder to submit for %s: PRODUCT.yaml, README.md, the bundle, and
results.json, junit.xml, report.html and the other reports on it. The bundle is verified first. One in which
a required row did not pass is refused, and so is a product file that lacks something.

The product file has the metadata of a checklist; conformance/%s.yaml is one that
is empty.`, certify.Profile, certify.Profile),
		Example: `  holdfast certify pr results/20261121-080000/bundle.tar --product product.yaml --out submission`,
		Args:    cobra.ExactArgs(1),
	}
	cmd.Flags().StringVar(&product, "product", "product.yaml", "`file` that describes the product")
	cmd.Flags().StringVar(&out, "out", "submission", "`directory` to make")
	cmd.Flags().StringVar(&key, "key", "", "`file` of the public key that the bundle must be signed with")
	output := addOutputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		text, err := os.ReadFile(product)
		if err != nil {
			return exitWith(exitUsage, fmt.Errorf("failed to read the product's description: %w", err))
		}
		p, err := certify.ParseProduct(text)
		if err != nil {
			return exitWith(exitUsage, fmt.Errorf("%s: %w", product, err))
		}
		var expected *bundle.Key
		if key != "" {
			if expected, err = bundle.LoadKey(key); err != nil {
				return exitWith(exitUsage, err)
			}
		}
		v, err := certify.Verify(args[0], expected, nil)
		if err != nil {
			return exitWith(exitUsage, fmt.Errorf("%s does not hold: %w", args[0], err))
		}
		if err := certify.Submission(out, args[0], p, v); err != nil {
			return exitWith(exitUsage, err)
		}
		if *output == outputJSON {
			return writeJSON(cmd.OutOrStdout(), struct {
				Submission string `json:"submission"`
			}{out})
		}
		_, err = fmt.Fprintln(cmd.OutOrStdout(), out)
		return err
	}
	return cmd
}
