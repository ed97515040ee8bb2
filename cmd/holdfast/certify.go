package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/holdfast-ha/holdfast/clusters"
	"github.com/holdfast-ha/holdfast/reports"
	"github.com/holdfast-ha/holdfast/reports/bundle"
	"github.com/holdfast-ha/holdfast/scenarios"
	"github.com/holdfast-ha/holdfast/suites/certify"
	"github.com/holdfast-ha/holdfast/suites/run"
)

// certified is what certify prints as JSON.
type certified struct {
	*certify.Outcome
	// Bundle is the path of the bundle, Key the ID of the key that signed it.
	Bundle string `json:"bundle"`
	Key    string `json:"key"`
}

func newCertifyCommand() *cobra.Command {
	var (
		f      clusterFlags
		w      wanted
		rows   string
		key    string
		out    string
		resume string
		dryRun bool
	)
	cmd := &cobra.Command{
		Use:   "certify",
		Short: "Test a cluster for a certificate, and sign a bundle that anyone can verify",
		Long: fmt.Sprintf(`Run every scenario that the rows (requirements of the catalogue) of a certificate need, at
least %d times and with each control-plane node as the victim in turn, and sign a bundle with
the verdicts and with the records that they are derived from. Anyone who has the bundle
derives the verdicts again with holdfast verify, offline.

--rows must (the default) covers all MUST rows that a scenario settles (decides the verdict
on), --rows conformance the rows that %s requires. With IDs, a certificate covers only
these, and says that it is partial. --rows observed breaks nothing, and so needs no
access to nodes: the certificate states what can be observed of a managed control plane,
and is not a conformance certificate.

A row is certified if it passed in all experiments, and if the faults hit each node in turn.
One that does not apply because of the cluster's design is counted separately; one that
cannot be tested here is not certified.

If it is clear beforehand that a row of --rows conformance, or one that is named, cannot be
tested on the cluster, nothing is run.

A certification that was interrupted or killed continues with --resume. The bundle contains the
component logs, but no audit logs, and no keys, tokens or passwords.

Exit codes: 0 certified, or observed in full; 1 a row failed, 2 bad input, 3 not certified
for another reason, or the run had a problem, such as a cluster that it could not release.`, certify.Turns, certify.Profile),
		Example: `  holdfast certify --rows conformance
  holdfast certify --rows HA-QR-005,HA-EP-003 --out results/trial
  holdfast certify --provider kind --attach theirs --rows HA-QR-005,HA-EP-003
  holdfast certify --inventory nodes.yaml --rows observed
  holdfast certify --resume results/20261121-080000
  holdfast certify --rows conformance --dry-run`,
	}
	f.add(cmd, "cluster", "")
	flags := cmd.Flags()
	flags.StringVar(&rows, "rows", "must", "must, conformance, observed, or IDs of requirements")
	flags.StringVar(&key, "key", keyFile, "`file` of the key to sign with; see holdfast keygen")
	flags.Uint64Var(&w.seed, "seed", 0, "seed of traffic and faults (default random; the bundle contains it)")
	flags.StringVar(&out, "out", "", "results directory; it must be new or empty (default results/DATE-TIME)")
	flags.StringVar(&resume, "resume", "", "results `directory` of a certification that stopped early, to continue")
	f.addTakeOver(cmd, &w.attach)
	flags.IntVar(&w.parallel, "parallel", 0, "number of clusters at a time (default as many as fit); fewer if the machine turns out to be too slow")
	flags.BoolVar(&dryRun, "dry-run", false, "print what would be done and what it breaks, and do nothing")
	output := addOutputFlag[certified](cmd)
	cmd.AddCommand(newCertifyPRCommand(), newCertifySignCommand())

	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		ids, profile, err := certify.Select(rows)
		if resume == "" && err != nil {
			return usageError("--rows: %w", err)
		}
		var signer *bundle.Key
		if !dryRun {
			if signer, err = loadSigner(cmd.Context(), key); err != nil {
				return err
			}
		}
		var p *run.Plan
		var provider clusters.Provider
		dir := resume
		if resume != "" {
			if p, provider, err = resumable(cmd, resume); err == nil && len(p.Rows) == 0 {
				err = usageError("the run in %s is not a certification: continue it with holdfast run --resume %s", resume, resume)
			}
		} else {
			p, provider, err = certification(cmd, &f, ids, profile, w)
			if err == nil {
				dir = cmp.Or(out, filepath.Join("results", p.Started.Format("20060102-150405")))
				err = checkResultsDir(dir)
			}
		}
		if err != nil {
			return err
		}
		if open := certify.Untestable(p); resume == "" && !dryRun && len(open) > 0 && slices.Contains([]string{"conformance", "partial"}, certify.Class(ids, profile)) {
			return usageError("not all of these rows can be certified on this cluster, since no scenario that settles them can run there:\n%s\nName others with --rows; --dry-run shows what would be run", strings.Join(open, "\n"))
		}
		switch {
		case dryRun && resume != "":
			return printLeft(cmd, p, resume, output.json())
		case dryRun && output.json():
			return printPlan(cmd, provider, p, true)
		case dryRun:
			printBriefly(cmd.OutOrStdout(), p)
			fmt.Fprintln(cmd.OutOrStdout())
			return printPlan(cmd, provider, p, false)
		case resume == "":
			printBriefly(cmd.ErrOrStderr(), p)
		}
		v, err := carryOut(cmd.Context(), cmd, provider, p, dir, resume != "")
		if err != nil {
			return err
		}
		tool, err := certify.ThisTool(holdfastVersion())
		if err != nil {
			return err
		}
		outcome := certify.Judge(v)
		if err := v.Write(dir); err != nil { // its reports, with the outcome
			return err
		}
		file, err := certify.Bundle(dir, v, outcome, tool, signer)
		if err != nil {
			return err
		}
		err = output.print(cmd, certified{outcome, file, signer.ID}, func(w io.Writer) error {
			err := outcome.Print(w)
			if err == nil {
				_, err = fmt.Fprintf(w, "Bundle: %s, signed with key %s\n%s\n", file, signer.ID, reportIn(dir))
			}
			return err
		})
		if err != nil {
			return err
		}
		return exitWith(reports.New(v.Report(), v.Results, nil).ExitCode, nil) // that of the outcome, and of the run
	}
	return cmd
}

func printBriefly(w io.Writer, p *run.Plan) {
	here := rememberedPace(p.Provider)
	for _, line := range certify.PlanLines(p, here.of(p.Expected)) {
		fmt.Fprintln(w, line)
	}
}

// loadSigner loads the key in a file. It fails if the key cannot sign, so that a command fails
// before its work and not after it.
func loadSigner(ctx context.Context, file string) (*bundle.Key, error) {
	key, err := bundle.LoadKey(file)
	if err != nil {
		return nil, exitWith(exitUsage, err)
	}
	if _, err := key.Sign(ctx, nil); err != nil {
		return nil, usageError("%s is a public key, and signing needs the private one", file)
	}
	return key, nil
}

// certification plans a run that certifies rows.
func certification(cmd *cobra.Command, f *clusterFlags, ids []string, profile string, w wanted) (*run.Plan, clusters.Provider, error) {
	w.scenarios = certify.Scenarios(ids, profile)
	w.turn = func(c *clusters.Cluster, chosen []*scenarios.Scenario) []*scenarios.Scenario {
		return run.InTurn(c, chosen, certify.Turns, nil)
	}
	p, provider, err := f.plan(cmd, w)
	if err != nil {
		return nil, nil, err
	}
	if i := p.Cluster.Spec.Inventory; i != nil && i.ExternalEtcd() {
		return nil, nil, usageError("cluster %s has an external etcd and cannot be certified yet, since a certification hits every node with the same faults: judge it with holdfast run", p.Cluster.Metadata.Name)
	}
	if !certify.HasItsVersion(p.Cluster) {
		return nil, nil, usageError("no node of cluster %s has the cluster's own version, %s, which the certificate would state: set spec.kubernetesVersion to the version of a node", p.Cluster.Metadata.Name, p.Cluster.Spec.KubernetesVersion)
	}
	p.Rows, p.Profile, p.Intensity = ids, profile, run.Intensity("")
	return p, provider, nil
}
