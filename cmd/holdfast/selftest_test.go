package main

import (
	"context"
	"fmt"
	"testing"

	"github.com/holdfast-ha/holdfast/suites/selftest"
)

// TestSelftestExit requires a missed violation to be a failure, also in a selftest that was stopped.
func TestSelftestExit(t *testing.T) {
	stopped := fmt.Errorf("stopped: %w", context.Canceled)
	rows := func(states ...selftest.State) (rows []selftest.Row) {
		for _, s := range states {
			rows = append(rows, selftest.Row{State: s})
		}
		return rows
	}
	for name, tc := range map[string]struct {
		rows  []selftest.Row
		early error
		want  int
	}{
		"all caught":                  {rows(selftest.Caught, selftest.Caught), nil, exitPass},
		"one unclear":                 {rows(selftest.Caught, selftest.Unclear), nil, exitInconclusive},
		"one missed":                  {rows(selftest.Missed, selftest.Unclear), nil, exitFail},
		"a false positive":            {rows(selftest.FalsePositive), nil, exitFail},
		"stopped":                     {rows(selftest.Caught, selftest.Unclear), stopped, exitInconclusive},
		"stopped with all caught":     {rows(selftest.Caught), stopped, exitInconclusive},
		"stopped, and one was missed": {rows(selftest.Missed, selftest.Unclear), stopped, exitFail},
	} {
		err := selftestExit(tc.rows, tc.early)
		if got := exitCode(err); got != tc.want {
			t.Errorf("%s: exit code %d, want %d", name, got, tc.want)
		}
		if tc.early != nil && err.Error() != tc.early.Error() {
			t.Errorf("%s: the error is %q, want %q", name, err, tc.early)
		}
	}
}
