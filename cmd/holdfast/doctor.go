package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/holdfast-ha/holdfast/clusters/release"
	"github.com/holdfast-ha/holdfast/reports"
)

// checkState says how a thing that holdfast looks for was found.
type checkState string

const (
	stateOK       checkState = "ok"
	stateFallback checkState = "fallback" // something else replaces it
	stateMissing  checkState = "missing"
)

// check is what doctor found out about one thing.
type check struct {
	Name  string     `json:"name"`
	State checkState `json:"state"`
	// Required reports that no cluster can run here without it.
	Required bool `json:"required"`
	// Found is what was seen.
	Found string `json:"found"`
	// Advice is what to do, or what takes its place; empty where all is well.
	Advice string `json:"advice,omitempty"`
}

func (c check) ok(format string, args ...any) check {
	c.State, c.Found, c.Advice = stateOK, fmt.Sprintf(format, args...), ""
	return c
}

func (c check) fallback(found, advice string) check {
	c.State, c.Found, c.Advice = stateFallback, found, advice
	return c
}

func (c check) missing(found, advice string) check {
	c.State, c.Found, c.Advice = stateMissing, found, advice
	return c
}

// diagnosis is the output of doctor.
type diagnosis struct {
	// Ready reports that nothing required is missing.
	Ready  bool            `json:"ready"`
	Checks []check         `json:"checks"`
	Cache  []release.Entry `json:"cache"`
}

func newDoctorCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Check what this machine supports, and say how to enable the rest",
		Long: `Check what this machine supports, and say how to enable the rest.

Each line is ok, missing or fallback; fallback means that an alternative is used and
nothing needs to be done. The checks are real: namespaces are created, devices are
opened, a Docker engine runs a container. Exit code 3 means that no local cluster can
run here until something is changed.`,
		Example: `  holdfast doctor
  holdfast doctor -o json`,
	}
	inside := cmd.Flags().Bool("inside", false, "")
	_ = cmd.Flags().MarkHidden("inside") // fails only for an unknown flag
	output := addOutputFlag[diagnosis](cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if *inside {
			return reports.WriteJSON(cmd.OutOrStdout(), insideChecks())
		}
		d := diagnose(cmd.Context())
		err := output.print(cmd, d, d.write)
		if err == nil && !d.Ready {
			err = exitWith(exitInconclusive, errors.New("this machine cannot run a local cluster yet; see what is missing above"))
		}
		return err
	}
	return cmd
}

func diagnose(ctx context.Context) diagnosis {
	d := diagnosis{Ready: true}
	cacheDir, cacheErr := release.DefaultCacheDir()
	var broken []error
	if cacheErr == nil {
		d.Cache, broken = release.List(cacheDir, false)
	}
	missing := missingDefaults(d.Cache)
	d.Checks = append(d.Checks, checkCores(), checkMemory(), checkHugePages(hugePages))
	tun := checkDevice("/dev/net/tun", check.fallback, "the network uses veth pairs and AF_PACKET instead; somewhat slower, otherwise the same")
	d.Checks = append(d.Checks, checkSandbox(ctx, tun.State == stateOK)...)
	d.Checks = append(d.Checks, tun,
		checkDevice("/dev/fuse", check.missing, "disk faults are not applicable without it; as root: modprobe fuse && chmod 0666 /dev/fuse"),
		checkProgram("haproxy"), checkProgram("nginx"),
		checkCache(cacheDir, cacheErr, missing, broken), checkGo(ctx, missing), checkDisk(cacheDir, !slices.Contains(missing, release.Kubernetes)))
	d.Checks = append(d.Checks, checkEngine(ctx)...)
	for _, c := range d.Checks {
		if c.Required && c.State == stateMissing {
			d.Ready = false
		}
	}
	d.Cache = append([]release.Entry{}, d.Cache...) // never nil
	return d
}

func (d diagnosis) write(w io.Writer) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, c := range d.Checks {
		fmt.Fprintf(tw, "%s\t%s\t%s\n", c.State, c.Name, c.Found)
		if c.Advice != "" {
			fmt.Fprintf(tw, "\t\t→ %s\n", c.Advice)
		}
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	if len(d.Cache) == 0 {
		return nil
	}
	fmt.Fprintln(w, "\nIn the cache:")
	for _, e := range d.Cache {
		fmt.Fprintf(tw, "  %s\t%s\t%s\t%s\t%s\n", e.Product, e.Version, e.Arch, e.Source, mebibytes(uint64(e.Size())))
	}
	return tw.Flush()
}

func mebibytes(n uint64) string {
	if n >= 10<<30 {
		return fmt.Sprintf("%d GiB", n>>30)
	}
	return fmt.Sprintf("%d MiB", n>>20)
}
