package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-ha/holdfast/clusters/keeper"
	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/fault"
)

func newInjectCommand() *cobra.Command {
	var r keeper.InjectRequest
	cmd := &cobra.Command{
		Use:   "inject FAULT --on TARGET [NAME=VALUE ...]",
		Short: "Break a running cluster on purpose, for a while",
		Long: `Break a running cluster on purpose. The fault stays active until 'holdfast heal' or
until the time given by --for has passed, even if this command is killed. It then heals
automatically, without needing the API server.

A target is a component or node by name, number or role, looked up once:
etcd/leader, etcd/follower, etcd/2, apiserver/node-3, apiserver/any, kcm/active,
scheduler/standby, node/2, node/kcm/active, agent/1, zone/b, nodes, balancer, kwok,
workers, harness (the machine and process that holdfast runs in). 'holdfast faults' lists
the faults with their parameters.

Exit codes: 0 the fault is active, with proof, 2 wrong usage (nothing was
touched), 3 the fault is not proven (changes were undone).`,
		Example: `  holdfast inject kill --on etcd/leader --for 20s
  holdfast inject isolate --on node/kcm/active keep=harness
  holdfast inject freeze --on apiserver/2 --for 1m -o json`,
		Args:              arguments("FAULT..."),
		ValidArgsFunction: completeFault,
	}
	cmd.Flags().StringVar(&r.On, "on", "", "target, such as etcd/leader (required)")
	cmd.Flags().DurationVar(&r.For, "for", 30*time.Second, "time to live, after which the fault heals automatically")
	output := addOutputFlag[fault.Entry](cmd)
	open := addNameFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		r.Fault = args[0]
		if err := readInjectArgs(&r, args[1:]); err != nil {
			return exitWith(exitUsage, err)
		}
		h, err := open()
		if err != nil {
			return err
		}
		p := newProgress(cmd.ErrOrStderr())
		p.Status("injecting %s into %s of cluster %s", r.Fault, r.On, h.Name)
		e, err := h.Inject(cmd.Context(), r)
		p.Done()
		if err != nil {
			return err
		}
		err = output.print(cmd, e, func(w io.Writer) error { return printInjection(w, e) })
		if err == nil && !e.Effect.Proven {
			err = exitWith(exitInconclusive, nil)
		}
		return err
	}
	return cmd
}

// readInjectArgs reads the arguments that can be validated without a cluster.
func readInjectArgs(r *keeper.InjectRequest, params []string) error {
	f, err := fault.Find(r.Fault)
	switch {
	case err != nil:
		return err
	case r.On == "":
		return fmt.Errorf("--on is missing: say what to break, for example: %s", injectCommand(f.Name, f.Example))
	case r.For <= 0:
		return fmt.Errorf("--for %s: want a time above zero, such as 30s", r.For)
	}
	r.Params = map[string]string{}
	for _, p := range params {
		name, value, ok := strings.Cut(p, "=")
		if !ok || name == "" {
			return fmt.Errorf("%q is not a parameter: want NAME=VALUE; see `holdfast faults %s`", p, r.Fault)
		}
		if _, twice := r.Params[name]; twice {
			return fmt.Errorf("parameter %s is given twice", name)
		}
		r.Params[name] = value
	}
	return fault.CheckWritten(f, r.On, r.Params, nil)
}

func printInjection(out io.Writer, e fault.Entry) error {
	switch {
	case e.Phase != fault.Active:
		_, err := fmt.Fprintf(out, "%s on %s had no effect and was undone: %s\n", e.Fault, e.Target, e.Effect.What)
		return err
	case !e.Effect.Proven:
		_, err := fmt.Fprintf(out, "%s on %s has no proof of effect: %s\nhealing was attempted, but is not proven yet (%s); it is retried when its time to live expires, or with: holdfast heal %s\n",
			e.ID, e.Target, e.Effect.What, undoing(e), e.ID)
		return err
	}
	_, err := fmt.Fprintf(out, "%s is active on %s after %s: %s\nit heals automatically in %s, or with: holdfast heal %s\n",
		e.ID, e.Target, latency(e.Effect), e.Effect.What, time.Until(e.Expires).Round(time.Second), e.ID)
	return err
}

// undoing describes the outcome of the last attempt to undo an injection.
func undoing(e fault.Entry) string {
	if e.Error == "" && e.Healing != nil {
		return e.Healing.What
	}
	return e.Error
}

func latency(p fault.Proof) time.Duration { return p.Effect.Sub(p.Called).Round(10 * time.Microsecond) }

func newHealCommand() *cobra.Command {
	var all bool
	cmd := &cobra.Command{
		Use:   "heal [ID ...]",
		Short: "Heal active faults on a running cluster",
		Long: `Heal active faults and prove that they are healed. Without an ID it heals the only
active fault; 'holdfast status' lists them. If none is active, there is nothing to do.

Exit codes: 0 healed, or no fault is active; 2 wrong usage, such as an unknown ID, or no ID
while several faults are active; 3 failed, or healing is not proven.`,
		Example: `  holdfast heal
  holdfast heal kill-1 latency-2
  holdfast heal --all`,
		Args: cobra.ArbitraryArgs,
	}
	cmd.Flags().BoolVar(&all, "all", false, "heal every active fault")
	output := addOutputFlag[[]fault.Entry](cmd)
	open := addNameFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, ids []string) error {
		if all && len(ids) > 0 {
			return usageError("heal takes IDs or --all, not both")
		}
		h, err := open()
		if err != nil {
			return err
		}
		if len(ids) == 0 && !all {
			if ids, err = onlyFault(cmd.Context(), h); err != nil { // none is as with --all
				return err
			}
		}
		p := newProgress(cmd.ErrOrStderr())
		p.Status("healing")
		healed, err := h.Heal(cmd.Context(), ids...)
		p.Done()
		printing := output.print(cmd, healed, func(w io.Writer) error {
			printHealed(w, healed)
			return nil
		})
		if err != nil {
			return err
		}
		if printing != nil {
			return printing
		}
		for _, e := range healed {
			if e.Phase == fault.Active {
				return exitWith(exitInconclusive, nil)
			}
		}
		if len(healed) == 0 {
			_, err = fmt.Fprintf(cmd.ErrOrStderr(), "no fault is active on cluster %s\n", h.Name)
		}
		return err
	}
	return cmd
}

// onlyFault returns the ID of the only active fault; nil if none is active.
func onlyFault(ctx context.Context, h *keeper.Handle) ([]string, error) {
	status, err := h.Status(ctx)
	if err != nil {
		return nil, err
	}
	ids := framework.Names(status.Faults, func(e fault.Entry) string { return e.ID })
	if len(ids) > 1 {
		return nil, usageError("several faults are active: name one, or use --all: %s", strings.Join(ids, ", "))
	}
	return ids, nil
}

func printHealed(out io.Writer, healed []fault.Entry) {
	for _, e := range healed {
		switch {
		case e.Phase != fault.Active:
			fmt.Fprintf(out, "%s is healed after %s: %s\n", e.ID, latency(*e.Healing), e.Healing.What)
			if e.Phase == fault.Healed && !e.Effect.Proven {
				fmt.Fprintf(out, "its effect did not last: %s\n", e.Effect.What)
			}
		case e.Error != "":
			fmt.Fprintf(out, "%s is not healed: %s\n", e.ID, e.Error)
		default:
			fmt.Fprintf(out, "%s has no proof of healing yet (retried when its time to live expires): %s\n", e.ID, e.Healing.What)
		}
	}
}
