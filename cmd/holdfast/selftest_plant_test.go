package main

import (
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/framework/judge"
	"github.com/holdfast-ha/holdfast/suites/selftest"
)

func TestTooSlow(t *testing.T) {
	for _, test := range []struct {
		settled, unclear int
		want             bool
	}{{1, 1, false}, {7, 7, false}, {8, 4, false}, {8, 5, true}, {100, 50, false}, {100, 51, true}} {
		if got := tooSlow(test.settled, test.unclear); got != test.want {
			t.Errorf("%d of %d unclear: %t", test.unclear, test.settled, got)
		}
	}
}

// TestOutcomes writes outcomes and reads them again, also if the last line is truncated.
func TestOutcomes(t *testing.T) {
	dir := t.TempDir()
	unit := selftest.Unit{Plant: "a", Cluster: "proxied", Scenario: "s", Subjects: []string{"takeover"}}
	unclear := selftest.Outcome{Unit: unit, Unclear: true, Problem: "no cluster"}
	clear := selftest.Outcome{Unit: unit, Acted: 3, Took: time.Second, Tries: 1,
		Results: []judge.Result{{Judge: "takeover", Requirement: "HA-LE-002", Verdict: judge.Fail, Sentence: "None did."}}}
	other := selftest.Outcome{Unit: selftest.Unit{Cluster: "proxied", Scenario: "s", Subjects: unit.Subjects}, Tries: 1}

	first := &planting{dir: dir}
	if err := first.open(); err != nil {
		t.Fatal(err)
	}
	for _, o := range []selftest.Outcome{unclear, other, clear} {
		first.settled(o)
	}
	if want := []selftest.Outcome{other, clear}; !reflect.DeepEqual(first.outcomes, want) {
		t.Errorf("%+v, want %+v", first.outcomes, want)
	}
	if err := first.file.Close(); first.broken != nil || err != nil {
		t.Fatal(first.broken, err)
	}
	read := func() []selftest.Outcome {
		t.Helper()
		p := &planting{dir: dir}
		if err := p.load(dir); err != nil {
			t.Fatal(err)
		}
		if err := p.open(); err != nil {
			t.Fatal(err)
		}
		if err := p.file.Close(); err != nil {
			t.Fatal(err)
		}
		return p.outcomes
	}
	if got, want := read(), []selftest.Outcome{other, clear}; !reflect.DeepEqual(got, want) {
		t.Errorf("read %+v, want %+v", got, want)
	}
	file := filepath.Join(dir, outcomesFile)
	b, err := os.ReadFile(file)
	if err == nil {
		err = os.WriteFile(file, b[:len(b)-20], 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // the truncated line is gone in the second round
		if got, want := read(), []selftest.Outcome{other}; !reflect.DeepEqual(got, want) {
			t.Errorf("read %+v of what was cut short, want %+v", got, want)
		}
	}
}
