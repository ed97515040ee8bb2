package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-ha/holdfast/clusters/kind/engine"
	"github.com/holdfast-ha/holdfast/clusters/system"
)

func newKindEngineCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "engine",
		Short: "Find a Docker engine that can run kind, or start one in a sandbox",
		Long: `Find a Docker engine that can run kind's nodes, and start one if none exists. A shell
can evaluate the output, after which Docker clients use that engine.

The engine that DOCKER_HOST names comes first, then the one that holdfast started,
then the one of the Docker client's current context. It must be able to run
privileged containers, which is checked.

holdfast's own engine is the installed dockerd (Debian's docker.io), started in
new user, mount, PID and network namespaces. It runs until it is stopped. No packet
leaves it, and it runs privileged containers even where this machine's root cannot.
Starting it requires root.`,
		Example: `  # find or start an engine for kind, for this shell
  eval "$(holdfast kind engine)"
  docker ps

  # which engine is used, and the state of holdfast's own
  holdfast kind engine status

  # where the addresses of its containers can be reached
  holdfast kind engine shell -- ip address

  # stop it; 'remove' also deletes images, containers and volumes
  holdfast kind engine stop`,
	}
	output := addOutputFlag[engine.Engine](cmd)
	cmd.RunE = runEngine(output, engine.Ensure)
	cmd.AddCommand(newKindEngineStartCommand(), newKindEngineStopCommand(), newKindEngineStatusCommand(),
		newKindEngineShellCommand(), newKindEngineRemoveCommand())
	return cmd
}

// runEngine calls get for an engine, and prints how to use it.
func runEngine(output *outputFlag[engine.Engine], get func(context.Context, engine.Config) (engine.Engine, error)) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, _ []string) error {
		e, err := get(cmd.Context(), engineConfig(cmd))
		if err != nil {
			return err
		}
		return output.print(cmd, e, func(w io.Writer) error { return printEngine(w, e) })
	}
}

// engineConfig returns a configuration that shows the steps of the engine's start.
func engineConfig(cmd *cobra.Command) engine.Config {
	p := newProgress(cmd.ErrOrStderr())
	return engine.Config{Progress: func(s string) { p.Line("%s", s) }}
}

// printEngine prints lines for a shell.
func printEngine(out io.Writer, e engine.Engine) error {
	fmt.Fprintf(out, "# %s\n", e)
	if e.Source != engine.SourceHoldfast {
		_, err := fmt.Fprintln(out, "# Docker clients already use it.")
		return err
	}
	if e.Warning != "" {
		fmt.Fprintf(out, "# %s\n", e.Warning)
	}
	_, err := fmt.Fprintf(out, "export DOCKER_HOST='%s'\n# in this shell: eval \"$(holdfast kind engine)\"\n", e.Host)
	return err
}

func newKindEngineStartCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "start",
		Short: "Start an engine in a sandbox, even if there are others",
		Long: `Start an engine in a sandbox, even if there are others, and leave it running.
holdfast uses it from then on, unless DOCKER_HOST names another.`,
		Example: `  holdfast kind engine start
  holdfast kind engine start -o json`,
	}
	output := addOutputFlag[engine.Engine](cmd)
	cmd.RunE = runEngine(output, engine.Start)
	return cmd
}

func newKindEngineStopCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "stop",
		Short: "Stop the engine that holdfast started, and keep its data",
		Long: `Stop the engine that holdfast started, with all of its containers. Images, containers
and volumes stay on disk and are available again after the next start.`,
		Example: `  holdfast kind engine stop`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			stopped, err := engine.Stop(cmd.Context())
			if err != nil {
				return err
			}
			words := "no Docker engine started by holdfast is running"
			if stopped {
				words = "the Docker engine is stopped; its data stays until you run: holdfast kind engine remove"
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), words)
			return err
		},
	}
}

func newKindEngineRemoveCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "remove",
		Short: "Stop the engine that holdfast started, and remove its data",
		Long: `Stop the engine that holdfast started, and remove its images, containers and
volumes. Nothing remains.`,
		Example: `  holdfast kind engine remove`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			removed, err := engine.Remove(cmd.Context(), engineConfig(cmd))
			if err != nil {
				return err
			}
			words := "holdfast has no Docker engine here: nothing to remove"
			if removed {
				words = "the Docker engine and its data are removed"
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), words)
			return err
		},
	}
}

// engineStatus is the output of `kind engine status`.
type engineStatus struct {
	// Engine is the one that holdfast would use; null if none exists.
	Engine *engine.Engine `json:"engine" jsonschema:"nullable"`
	// Reason says why no engine exists.
	Reason string `json:"reason,omitempty"`
	// Own is the state of holdfast's own engine.
	Own engine.State `json:"own"`
	// Problems are what keeps holdfast from starting one, and what else the
	// kind provider would lack.
	Problems []engine.Problem `json:"problems"`
}

func newKindEngineStatusCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show which engine holdfast uses, and the state of its own",
		Example: `  holdfast kind engine status
  holdfast kind engine status -o json`,
	}
	output := addOutputFlag[engineStatus](cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		s := engineStatus{Problems: append([]engine.Problem{}, engine.Problems()...)}
		var err error
		if s.Own, err = engine.Inspect(engine.Config{}); err != nil {
			return err
		}
		e, err := engine.Find(cmd.Context())
		switch {
		case cmd.Context().Err() != nil:
			return err
		case err != nil:
			s.Reason = err.Error()
		default:
			s.Engine = &e
		}
		return output.print(cmd, s, s.write)
	}
	return cmd
}

func (s engineStatus) write(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	if s.Engine != nil {
		fmt.Fprintf(w, "engine\t%s\n", s.Engine)
		if err := s.Engine.Reachable(); err != nil {
			fmt.Fprintf(w, "\t→ %v\n", err)
		}
		if s.Engine.Warning != "" {
			fmt.Fprintf(w, "\t→ %s\n", s.Engine.Warning)
		}
	} else {
		fmt.Fprintf(w, "engine\t%s\n", firstLine(s.Reason))
	}
	switch blocking := engine.Blocking(s.Problems); {
	case s.Own.Running:
		fmt.Fprintf(w, "holdfast's own\trunning for %s, process %d\n", time.Since(s.Own.Started).Round(time.Second), s.Own.PID)
	case len(blocking) > 0:
		fmt.Fprintf(w, "holdfast's own\tcannot be started here: %s missing\n\t→ %s\n", engine.Missing(blocking), engine.Advice(blocking))
	default:
		fmt.Fprintf(w, "holdfast's own\tnot running\n\t→ start it with: holdfast kind engine\n")
	}
	if s.Own.Log != "" {
		fmt.Fprintf(w, "its log\t%s\n", s.Own.Log)
	}
	if s.Own.DataDir != "" {
		fmt.Fprintf(w, "its data\t%s\n", s.Own.DataDir)
	}
	return w.Flush()
}

func newKindEngineShellCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "shell [-- COMMAND]",
		Short: "Run a shell or a command in the engine's network",
		Long: `Run a shell, or a command, where the addresses of the engine's containers can be
reached, with DOCKER_HOST set. Files and processes are those of this machine.`,
		Example: `  holdfast kind engine shell
  holdfast kind engine shell -- curl -k https://172.18.0.2:6443/readyz`,
		Args: cobra.ArbitraryArgs,
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) > 0 && cmd.ArgsLenAtDash() != 0 {
			return usageError("put the command after --")
		}
		if len(args) == 0 {
			args = []string{system.UserShell()}
		}
		e, err := engine.Find(cmd.Context())
		if errors.Is(err, engine.ErrNone) {
			return exitWith(exitUsage, fmt.Errorf("%w; start one with: holdfast kind engine", err))
		}
		if err != nil {
			return err
		}
		shell, err := e.Command(cmd.Context(), args[0], args[1:]...)
		if err != nil {
			return exitWith(exitUsage, err)
		}
		return runChild(cmd, shell)
	}
	return cmd
}
