package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-ha/holdfast/clusters/keeper"
	"github.com/holdfast-ha/holdfast/framework/fault"
)

func newInjectCommand() *cobra.Command {
	var r keeper.InjectRequest
	cmd := &cobra.Command{
		Use:   "inject FAULT --on TARGET [NAME=VALUE ...]",
		Short: "Break a running cluster on purpose, for a while",
		Long: `Break a running cluster on purpose. The fault stays active until 'holdfast heal' or
until the time given by --for is over, even if this command is killed. It then heals
automatically, without the API server.

A target is a component or node by name, number or role, looked up once:
etcd/leader, etcd/follower, etcd/2, apiserver/node-3, apiserver/any, kcm/active,
scheduler/standby, node/2, node/kcm/active, agent/1, zone/b, nodes, balancer, kwok,
workers, harness. 'holdfast faults' lists the faults with their parameters.

Exit codes: 0 the fault has proof of its effect, 2 wrong usage (nothing was
touched), 3 no proof (what was touched is undone).`,
		Example: `  holdfast inject kill --on etcd/leader --for 20s
  holdfast inject isolate --on node/kcm/active keep=harness
  holdfast inject freeze --on apiserver/2 --for 1m -o json`,
		Args:              cobra.MinimumNArgs(1),
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
			return faultError(err)
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
	return nil
}

// faultError adds the exit code to an error of injecting or healing.
func faultError(err error) error {
	if errors.As(err, new(*fault.Refused)) {
		return exitWith(exitUsage, err)
	}
	return err
}

func printInjection(out io.Writer, e fault.Entry) error {
	switch {
	case e.Phase != fault.Active:
		_, err := fmt.Fprintf(out, "%s on %s had no effect and was undone: %s\n", e.Fault, e.Target, e.Effect.What)
		return err
	case !e.Effect.Proven:
		_, err := fmt.Fprintf(out, "%s on %s has no proof of effect: %s\nit was healed, but that is not proven yet either (%s); it is retried when its time to live expires, or with: holdfast heal %s\n",
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
active fault; 'holdfast status' lists them.`,
		Example: `  holdfast heal
  holdfast heal kill-1 latency-2
  holdfast heal --all`,
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
			if ids, err = onlyFault(cmd.Context(), h); err != nil {
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
			return faultError(err)
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
			_, err = fmt.Fprintln(cmd.ErrOrStderr(), "no fault is active")
		}
		return err
	}
	return cmd
}

// onlyFault returns the ID of the only active fault.
func onlyFault(ctx context.Context, h *keeper.Handle) ([]string, error) {
	status, err := h.Status(ctx)
	if err != nil {
		return nil, err
	}
	var ids []string
	for _, e := range status.Faults {
		ids = append(ids, e.ID)
	}
	switch len(ids) {
	case 0:
		return nil, usageError("no fault is active on cluster %s", h.Name)
	case 1:
		return ids, nil
	}
	return nil, usageError("several faults are active: name one, or use --all: %s", strings.Join(ids, ", "))
}

func printHealed(out io.Writer, healed []fault.Entry) {
	for _, e := range healed {
		switch {
		case e.Phase != fault.Active:
			fmt.Fprintf(out, "%s is healed after %s: %s\n", e.ID, latency(*e.Healing), e.Healing.What)
		case e.Error != "":
			fmt.Fprintf(out, "%s is not healed: %s\n", e.ID, e.Error)
		default:
			fmt.Fprintf(out, "%s has no proof of healing yet (retried when its time to live expires): %s\n", e.ID, e.Healing.What)
		}
	}
}
