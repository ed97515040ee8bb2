package main

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/nearest"
)

// arguments returns a check that a command has one argument for each name and no others. The
// argument of "[NAME]" may be missing; "NAME..." stands for one or more.
func arguments(names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		for i, name := range names {
			name, more := strings.CutSuffix(name, "...")
			switch {
			case i >= len(args) && !strings.HasPrefix(name, "["):
				return fmt.Errorf("%s is missing: want %s", name, usage(cmd))
			case more:
				return nil
			}
		}
		switch {
		case len(args) <= len(names):
			return nil
		case cmd.HasSubCommands():
			return subcommand(cmd, args)
		case len(names) == 0:
			return fmt.Errorf("%s takes no arguments: got %q", strings.TrimPrefix(cmd.CommandPath(), cmd.Root().Name()+" "), args[0])
		}
		return fmt.Errorf("unexpected argument %q: want %s", args[len(names)], usage(cmd))
	}
}

func usage(cmd *cobra.Command) string { return strings.TrimSuffix(cmd.UseLine(), " [flags]") }

// subcommand is the check of a command's arguments if they do not begin with a subcommand.
func subcommand(cmd *cobra.Command, args []string) error {
	names := framework.Names(cmd.Commands(), (*cobra.Command).Name)
	if len(args) == 0 {
		return fmt.Errorf("the command after %q is missing: want %s", cmd.CommandPath(), oneOf(names))
	}
	return fmt.Errorf("unknown command %q for %q: want %s%s", args[0], cmd.CommandPath(), oneOf(names), nearest.Meant(names, args[0]))
}

// eachCommand calls do for cmd and all commands below it.
func eachCommand(cmd *cobra.Command, do func(*cobra.Command)) {
	do(cmd)
	for _, sub := range cmd.Commands() {
		eachCommand(sub, do)
	}
}

// wantSubcommands makes a missing or unknown subcommand an error, in place of cobra's help with
// exit code 0, if a command only has subcommands.
func wantSubcommands(cmd *cobra.Command) {
	if cmd.HasSubCommands() && !cmd.Runnable() {
		cmd.Args = subcommand
		cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() } // without it cobra does not call Args
	}
}

// wantNoArguments makes an argument an error, if a command does not say which ones it takes.
func wantNoArguments(cmd *cobra.Command) {
	if cmd.Runnable() && cmd.Args == nil {
		cmd.Args = arguments()
	}
}

func helpTopic(cmd *cobra.Command, args []string) error {
	about, rest, err := cmd.Root().Find(args)
	if err == nil && len(rest) > 0 && about.HasSubCommands() {
		err = about.Args(about, rest)
	}
	return err
}

// flagWants describes the values of a flag, by the flag's type.
var flagWants = map[string]string{
	"bool":     "true or false",
	"duration": "a duration with a unit, such as 10s",
	"int":      "a whole number",
	"uint64":   "a whole number, 0 or more",
}

// emptyFlag refuses a flag with an empty value, such as that of an unset variable in a script: the
// command would ignore it, and with it a key to verify with, or an existing cluster to test.
func emptyFlag(cmd *cobra.Command) (err error) {
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if v := f.Value.String(); v == "" || v == "[]" {
			err = cmp.Or(err, fmt.Errorf("--%s is empty: give it a value, or leave it out", f.Name))
		}
	})
	return err
}

func flagError(_ *cobra.Command, err error) error {
	invalid, ok := errors.AsType[*pflag.InvalidValueError](err)
	if !ok {
		return err
	}
	f, value := invalid.GetFlag(), invalid.GetValue()
	if want := flagWants[f.Value.Type()]; want != "" {
		return fmt.Errorf("--%s %s: want %s", f.Name, value, want)
	}
	return fmt.Errorf("--%s %s: %w", f.Name, value, invalid.Unwrap())
}
