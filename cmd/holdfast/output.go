package main

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/holdfast-ha/holdfast/framework/nearest"
	"github.com/holdfast-ha/holdfast/reports"
)

// outputFlag is the flag -o, --output of a command that prints a T: as text, as JSON, or in the
// command's other formats.
type outputFlag[T any] struct {
	format  string
	formats []string
}

// addOutputFlag adds the flag -o to cmd. It accepts formats, the default first: table and json if
// none are given. `holdfast schema` publishes the schema of T.
func addOutputFlag[T any](cmd *cobra.Command, formats ...string) *outputFlag[T] {
	if len(formats) == 0 {
		formats = []string{"table", "json"}
	}
	o := &outputFlag[T]{format: formats[0], formats: formats}
	cmd.Flags().VarP(o, "output", "o", "output format")
	return o
}

func (o *outputFlag[T]) String() string { return o.format }
func (o *outputFlag[T]) Type() string   { return strings.Join(o.formats, "|") }

func (o *outputFlag[T]) Set(s string) error {
	if !slices.Contains(o.formats, s) {
		return fmt.Errorf("must be %s%s", oneOf(o.formats), nearest.Meant(o.formats, s))
	}
	o.format = s
	return nil
}

// oneOf lists words: "a, b or c".
func oneOf(words []string) string {
	last := max(0, len(words)-1)
	return strings.TrimPrefix(strings.Join(words[:last], ", ")+" or "+strings.Join(words[last:], ""), " or ")
}

func (o *outputFlag[T]) json() bool { return o.format == "json" }

// print prints v as JSON if the user asked for it, and otherwise calls text.
func (o *outputFlag[T]) print(cmd *cobra.Command, v T, text func(io.Writer) error) error {
	if o.json() {
		return reports.WriteJSON(cmd.OutOrStdout(), v)
	}
	return text(cmd.OutOrStdout())
}

// printf prints v as JSON if the user asked for it, and otherwise the formatted text.
func (o *outputFlag[T]) printf(cmd *cobra.Command, v T, format string, args ...any) error {
	return o.print(cmd, v, func(w io.Writer) error {
		_, err := fmt.Fprintf(w, format, args...)
		return err
	})
}
