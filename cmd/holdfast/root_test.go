package main

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

func TestExitCode(t *testing.T) {
	plain := errors.New("plain")
	for _, test := range []struct {
		err  error
		want int
	}{
		{nil, exitPass},
		{plain, exitInconclusive},
		{exitWith(exitFail, plain), exitFail},
		{exitWith(exitFail, nil), exitFail},
		{exitWith(exitPass, nil), exitPass},
		{usageError("bad %s", "flag"), exitUsage},
		{fmt.Errorf("more: %w", usageError("bad")), exitUsage},
	} {
		if got := exitCode(test.err); got != test.want {
			t.Errorf("exitCode(%v) = %d, want %d", test.err, got, test.want)
		}
	}
	if err := exitWith(exitUsage, plain); !errors.Is(err, plain) || err.Error() != "plain" {
		t.Errorf("exitWith hides its error: %v", err)
	}
}

// Without a terminal progress prints a changing status rarely, and rewrites no line.
func TestProgressWithoutTerminal(t *testing.T) {
	var b strings.Builder
	p := newProgress(&b)
	p.Line("start of %s", "it")
	for i := range 100 {
		p.Status("%d of 100", i)
	}
	p.Line("end")
	p.Done()
	if got, want := b.String(), "start of it\nend\n"; got != want {
		t.Errorf("wrote %q, want %q", got, want)
	}
}

func TestProgressOnTerminal(t *testing.T) {
	var b strings.Builder
	p := newProgress(&b)
	p.width = 12
	p.Status("a status that is too long")
	p.Status("two")
	p.Line("a line that may be as long as it likes")
	p.Done()
	const clear = "\r\x1b[K"
	want := clear + "a status th" + clear + "two" + clear + "a line that may be as long as it likes\n"
	if got := b.String(); got != want {
		t.Errorf("wrote %q, want %q", got, want)
	}
}
