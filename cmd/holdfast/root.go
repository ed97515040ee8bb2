package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/holdfast-ha/holdfast/clusters"
	"github.com/holdfast-ha/holdfast/clusters/release"
	"github.com/holdfast-ha/holdfast/framework/fault"
	"github.com/holdfast-ha/holdfast/reports"
)

// Exit codes of every command; documented in the README.
const (
	exitPass         = 0 // done; for a run: no requirement failed or is inconclusive
	exitFail         = 1 // a requirement failed
	exitUsage        = 2 // wrong usage or bad input
	exitInconclusive = 3 // inconclusive, or holdfast itself failed
)

// exitError carries an error and the program's exit code for it.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit code %d", e.code)
	}
	return e.err.Error()
}

func (e *exitError) Unwrap() error { return e.err }

// exitWith returns an error that makes the program print err and exit with code. If err is nil
// the program prints nothing, for commands that have already printed their output. For errors
// without a code the program exits with exitInconclusive, except for those of the command line
// itself (unknown command, bad flag, wrong number of arguments) and those whose type says that
// nothing was touched, for which it exits with exitUsage. For exitPass without an error it returns
// nil.
func exitWith(code int, err error) error {
	if code == exitPass && err == nil {
		return nil
	}
	return &exitError{code: code, err: err}
}

// usageError is exitWith(exitUsage, fmt.Errorf(format, args...)).
func usageError(format string, args ...any) error {
	return exitWith(exitUsage, fmt.Errorf(format, args...))
}

func exitCode(err error) int {
	var e *exitError
	switch {
	case err == nil:
		return exitPass
	case errors.As(err, &e):
		return e.code
	case errors.As(err, new(*release.VersionError)), errors.As(err, new(*clusters.InputError)), errors.As(err, new(*fault.Refused)):
		return exitUsage
	default:
		return exitInconclusive
	}
}

// endingSignals are the signals on which a command shuts down in order. SIGHUP, sent when a
// terminal closes, is one of them unless the program was started to ignore it, as with nohup.
func endingSignals() []os.Signal {
	all := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) {
		all = append(all, syscall.SIGHUP)
	}
	return all
}

// execute runs the command line and returns the exit code. Interrupt, SIGTERM and SIGHUP cancel
// the command's context; a second signal makes the program exit immediately.
func execute(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	ctx, stop := signal.NotifyContext(context.Background(), endingSignals()...)
	defer stop()
	context.AfterFunc(ctx, stop)

	root := newRootCommand()
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)

	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	help, _, _ := root.Find([]string{"help"}) // it was just added
	help.Args = helpTopic
	eachCommand(root, wantSubcommands)

	// A failure before the command's own code runs is a usage error.
	running := false
	eachCommand(root, func(cmd *cobra.Command) { markRunning(cmd, &running) })

	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		return exitPass
	}
	var e *exitError
	if !running && !errors.As(err, &e) {
		err = exitWith(exitUsage, fmt.Errorf("%w\nSee '%s --help'", err, cmd.CommandPath()))
	}
	if !errors.As(err, &e) || e.err != nil {
		if ctx.Err() != nil && errors.Is(err, context.Canceled) && !strings.HasPrefix(err.Error(), "interrupted") {
			fmt.Fprintf(stderr, "holdfast: interrupted: %s\n", reports.Plain(err.Error()))
		} else {
			fmt.Fprintf(stderr, "holdfast: %s\n", reports.Plain(err.Error()))
		}
	}
	return exitCode(err)
}

func markRunning(cmd *cobra.Command, running *bool) {
	if run := cmd.RunE; run != nil {
		cmd.RunE = func(cmd *cobra.Command, args []string) error {
			if err := emptyFlag(cmd); err != nil {
				return err
			}
			*running = true
			return run(cmd, args)
		}
	}
}

func newRootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "holdfast",
		Short: "Inject faults into a highly available Kubernetes control plane",
		Long: `holdfast injects faults into a highly available Kubernetes control plane and
reports, with evidence, whether it keeps its promises.

Exit codes: 0 done, and no requirement failed or is inconclusive; 1 a requirement or a check
failed, a comparison found something worse, or a bundle is not valid; 2 wrong usage or bad
input; 3 inconclusive or not certified, or holdfast itself failed.`,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return nil
			}
			err := fmt.Errorf("unknown command %q", args[0])
			if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
				err = fmt.Errorf("%w, did you mean %s?", err, strings.Join(near, " or "))
			}
			return err
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SuggestionsMinimumDistance = 2
	root.SetFlagErrorFunc(flagError)
	addCommands(root)
	eachCommand(root, completeFlags)
	eachCommand(root, wantNoArguments)
	root.Version = versionLine()
	root.SetVersionTemplate("{{.Version}}\n")
	return root
}

// progress shows the progress of long work: one live line on a terminal, plain lines elsewhere.
// Its methods may be called concurrently.
type progress struct {
	mu    sync.Mutex
	w     io.Writer
	width int // columns of the terminal; 0 if there is none
	live  bool
	last  string
	said  time.Time
	start time.Time
}

// plainInterval is how often, at most, a changing status is printed without a terminal.
const plainInterval = 10 * time.Second

// newProgress returns a progress on w, usually the command's ErrOrStderr, so that standard output
// has only results. From then on a reader that exits, such as tee on Ctrl-C, does not end the
// program: it must heal, delete its clusters and write its results.
func newProgress(w io.Writer) *progress {
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	p := &progress{w: w, start: time.Now()}
	if f, ok := w.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		p.width = 80
		if width, _, err := term.GetSize(int(f.Fd())); err == nil && width > 10 {
			p.width = width
		}
	}
	return p
}

// Status replaces the live line. Without a terminal it prints a line at most every ten seconds.
func (p *progress) Status(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := reports.Plain(fmt.Sprintf(format, args...))
	if s == p.last {
		return
	}
	if p.width == 0 {
		if time.Since(p.said) < plainInterval {
			return
		}
		p.said, p.last = time.Now(), s
		fmt.Fprintln(p.w, s)
		return
	}
	p.last, p.live = s, true
	if r := []rune(s); len(r) >= p.width {
		s = string(r[:p.width-1])
	}
	fmt.Fprintf(p.w, "\r\x1b[K%s", s)
}

// Line prints a permanent line.
func (p *progress) Line(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clear()
	fmt.Fprintf(p.w, format+"\n", args...)
	p.said = time.Now()
}

// Done removes the live line.
func (p *progress) Done() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clear()
}

// Elapsed is the time since newProgress, in whole seconds.
func (p *progress) Elapsed() time.Duration { return time.Since(p.start).Truncate(time.Second) }

func (p *progress) clear() {
	if p.live {
		fmt.Fprint(p.w, "\r\x1b[K")
		p.live, p.last = false, ""
	}
}
