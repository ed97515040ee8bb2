package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/record"
	"github.com/holdfast-ha/holdfast/reports"
)

func newRecordCommand() *cobra.Command {
	var (
		scenario     string
		kinds        []string
		since, until time.Duration
		filter       record.Filter
		follow       bool
	)
	cmd := &cobra.Command{
		Use:   "record DIR",
		Short: "Print what a run recorded",
		Long: `Print the record of a scenario, one line for each entry: seconds since the start
of the record, the kind of entry, and what was seen. DIR is the results directory of
a run, or the directory of one record. With -o json each line is an entry as recorded
(docs/record.md).

A damaged or truncated record is printed up to the damage; standard error says where that
is, and the exit code is 3.`,
		Example: `  holdfast record results/20261121-080000 --scenario etcd-leader-killed
  holdfast record results/20261121-080000/record/etcd-leader-killed --kind fault,phase
  holdfast record results/mine --since 12s --until 14s500ms --node node-2
  holdfast record results/mine --client registers/node-2/1 --since 12s
  holdfast record results/mine --kind op -o json | jq -r .d.outcome
  holdfast record results/mine --follow --kind fault,steady,phase`,
		Args: arguments("DIR"),
	}
	flags := cmd.Flags()
	flags.StringVar(&scenario, "scenario", "", "the scenario, if the results directory contains the records of several")
	flags.StringSliceVar(&kinds, "kind", nil, "only these kinds of entries: "+strings.Join(kindNames(), ", "))
	flags.DurationVar(&since, "since", 0, "only entries from this time on, such as 12s, on the clock of the record")
	flags.DurationVar(&until, "until", 0, "only entries up to this time")
	flags.StringVar(&filter.Node, "node", "", "only entries about a node, or through an entrance, of this name")
	flags.StringVar(&filter.Client, "client", "", "only what this client did and saw")
	flags.StringVar(&filter.Key, "key", "", "only entries about this key")
	output := addOutputFlag[record.Entry](cmd, "text", "json")
	flags.BoolVarP(&follow, "follow", "f", false, "wait for more, until the record ends")

	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		for _, k := range kinds {
			if !slices.Contains(kindNames(), k) {
				return usageError("--kind %s: must be one of %s", k, strings.Join(kindNames(), ", "))
			}
			filter.Kinds = append(filter.Kinds, record.Kind(k))
		}
		if flags.Changed("until") && until < since || since < 0 {
			return usageError("--since %s --until %s: want --since of 0 or more, and --until not before it", since, until)
		}
		filter.Since, filter.Until = record.Nanos(since), record.Nanos(until)
		dir, err := findRecord(args[0], scenario)
		if err != nil {
			return err
		}
		p := &recordPrinter{filter: &filter, json: output.json(), follow: follow}
		return p.print(cmd.Context(), dir, cmd.OutOrStdout())
	}
	return cmd
}

func kindNames() []string {
	return framework.Names(record.Kinds(), func(k record.Kind) string { return string(k) })
}

// findRecord returns the directory of a record: dir itself, or that of a scenario if dir is a
// results directory.
func findRecord(dir, scenario string) (string, error) {
	if _, err := os.Stat(filepath.Join(dir, record.FileName)); err == nil && scenario == "" {
		return dir, nil
	}
	entries, err := os.ReadDir(record.Dir(dir, ""))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", usageError("failed to look for records in %s: %w", dir, err)
	}
	var names []string
	for _, e := range entries {
		if _, err := os.Stat(filepath.Join(record.Dir(dir, e.Name()), record.FileName)); err == nil {
			names = append(names, e.Name())
		}
	}
	switch {
	case len(names) == 0:
		return "", usageError("no record in %s; name the results directory of a run, or the directory of a %s", dir, record.FileName)
	case scenario == "" && len(names) == 1:
		return record.Dir(dir, names[0]), nil
	case scenario == "":
		return "", usageError("%s has the records of several scenarios; choose with --scenario: %s", dir, strings.Join(names, ", "))
	case !slices.Contains(names, scenario):
		return "", usageError("%s has no record of a scenario %s; it has %s", dir, scenario, strings.Join(names, ", "))
	}
	return record.Dir(dir, scenario), nil
}

// recordPrinter prints a record, one entry at a time.
type recordPrinter struct {
	filter *record.Filter
	json   bool
	follow bool
}

func (p *recordPrinter) print(ctx context.Context, dir string, w io.Writer) error {
	r, err := p.open(ctx, dir)
	if err == nil {
		defer r.Close()
		out := bufio.NewWriter(w)
		err = p.entries(ctx, r, out)
		if flush := out.Flush(); flush != nil {
			return fmt.Errorf("failed to print the record: %w", flush)
		}
	}
	if p.follow && errors.Is(err, context.Canceled) {
		return nil // the user stopped it
	}
	return err
}

func (p *recordPrinter) open(ctx context.Context, dir string) (*record.Reader, error) {
	if p.follow {
		return record.Follow(ctx, dir)
	}
	return record.Open(dir)
}

func (p *recordPrinter) entries(ctx context.Context, r *record.Reader, out *bufio.Writer) error {
	meta, err := json.Marshal(r.Meta())
	if err != nil {
		return err
	}
	e := record.Entry{Kind: record.KindMeta, Data: meta}
	for ; err == nil && ctx.Err() == nil; e, err = r.Next() {
		v, err := e.Value()
		if err != nil {
			return &record.Damage{Path: r.Path(), Line: r.Line(), Reason: err.Error()}
		}
		if p.filter.Takes(e, v) {
			if err := p.entry(out, e, v); err != nil {
				return fmt.Errorf("failed to print the record: %w", err)
			}
		}
		// Entries added to a finished record are for judges.
		if p.follow && (e.Kind == record.KindEnd || p.filter.Until > 0 && e.At > p.filter.Until) {
			return nil
		}
	}
	if errors.Is(err, io.EOF) {
		return nil
	}
	return errors.Join(err, ctx.Err())
}

func (p *recordPrinter) entry(out *bufio.Writer, e record.Entry, v any) error {
	if p.json {
		enc := json.NewEncoder(out)
		enc.SetEscapeHTML(false)
		if err := enc.Encode(e); err != nil {
			return err
		}
	} else if _, err := fmt.Fprintln(out, reports.EntryLine(e, v)); err != nil {
		return err
	}
	if p.follow {
		return out.Flush()
	}
	return nil
}
