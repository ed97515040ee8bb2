// Shrink makes a fixture from the record of a planted violation: it leaves out what the plant's
// verdicts do not rest on, mainly the traffic and the probes for other judges.
//
//	holdfast selftest --judge takeover --out results/selftest
//	go run ./suites/selftest/shrink results/selftest/1-proxied/record/2-no-takeover no-takeover suites/selftest/testdata/recorded
//
// If the verdicts or their sentences would change, it makes no fixture.
package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/holdfast-ha/holdfast/framework/judge"
	"github.com/holdfast-ha/holdfast/framework/record"
	"github.com/holdfast-ha/holdfast/suites/selftest"
)

// worthwhile is the share of a record that a group of entries must exceed to be left out.
const worthwhile = 0.02

func main() {
	if len(os.Args) != 4 {
		fmt.Fprintln(os.Stderr, "usage: shrink RECORD PLANT FIXTURES")
		os.Exit(2)
	}
	if err := shrink(os.Args[1], os.Args[2], os.Args[3]); err != nil {
		fmt.Fprintln(os.Stderr, "shrink:", err)
		os.Exit(1)
	}
}

func shrink(dir, name, fixtures string) error {
	plants := selftest.Plants()
	i := slices.IndexFunc(plants, func(p selftest.Plant) bool { return p.Name == name })
	if i < 0 {
		return fmt.Errorf("unknown plant %q", name)
	}
	meta, entries, err := read(dir)
	if err != nil {
		return err
	}
	scratch, err := os.MkdirTemp("", "holdfast-shrink-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(scratch)
	path := filepath.Join(scratch, record.FileName)
	try := func(entries []record.Entry) (verdicts string, size int, err error) {
		var file bytes.Buffer
		if err := record.PackEntries(&file, meta, entries); err != nil {
			return "", 0, err
		}
		if err := os.WriteFile(path, file.Bytes(), 0o644); err != nil {
			return "", 0, err
		}
		verdicts, err = shown(scratch, plants[i])
		return verdicts, file.Len(), err
	}
	want, before, err := try(entries)
	if err != nil {
		return err
	}
	groups, total := map[string]int{}, 0
	for _, e := range entries {
		groups[group(e)] += len(e.Data)
		total += len(e.Data)
	}
	largest := slices.SortedFunc(maps.Keys(groups), func(a, b string) int { return cmp.Or(cmp.Compare(groups[b], groups[a]), cmp.Compare(a, b)) })
	for _, g := range largest {
		if float64(groups[g]) < worthwhile*float64(total) {
			break
		}
		fewer := slices.DeleteFunc(slices.Clone(entries), func(e record.Entry) bool { return group(e) == g })
		if got, _, err := try(fewer); err == nil && got == want {
			entries = fewer
		}
	}
	_, after, err := try(entries)
	if err != nil {
		return err
	}
	to := filepath.Join(fixtures, name)
	if err := os.MkdirAll(to, 0o755); err != nil {
		return err
	}
	file, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	fmt.Printf("%s: %d KiB instead of %d\n", name, after>>10, before>>10)
	return os.WriteFile(filepath.Join(to, record.FileName), file, 0o644)
}

// group returns the key of the entries that are kept or dropped together: kind, entrance, client
// and node.
func group(e record.Entry) string {
	var of struct{ Kind, Entrance, Client, Node string }
	_ = json.Unmarshal(e.Data, &of)
	return fmt.Sprint(e.Kind, of)
}

// shown returns the verdicts on the plant's subjects, in words. An error says that the violation
// is not found.
func shown(dir string, p selftest.Plant) (string, error) {
	run, err := record.Read(dir)
	if err != nil {
		return "", err
	}
	var said bytes.Buffer
	results := judge.Evaluate(run)
	for _, c := range p.Catches {
		found := false
		for _, r := range results {
			if c.Of(r) {
				fmt.Fprintln(&said, r.Requirement, r.Judge, r.Verdict, r.Sentence)
				found = found || c.Found(r)
			}
		}
		if !found {
			return "", fmt.Errorf("%s%s does not find what is planted", c.Judge, c.Requirement)
		}
	}
	return said.String(), nil
}

// read returns a whole record, with the unmodified line of its metadata.
func read(dir string) (meta record.Meta, entries []record.Entry, err error) {
	r, err := record.Open(dir)
	if err != nil {
		return meta, nil, err
	}
	defer r.Close()
	for {
		e, err := r.Next()
		if errors.Is(err, io.EOF) {
			return r.Meta(), entries, nil
		}
		if err != nil {
			return meta, nil, err
		}
		entries = append(entries, e)
	}
}
