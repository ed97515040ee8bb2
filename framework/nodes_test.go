package framework

import (
	"context"
	"errors"
	"testing"
)

func TestStepsAreReported(t *testing.T) {
	stop := errors.New("stop here")
	var reported []Step
	ctx, cancel := context.WithCancel(WithSteps(t.Context(), func(s Step) error {
		reported = append(reported, s)
		return stop
	}))
	works := func(ctx context.Context) (string, error) { return "seen", ctx.Err() }
	broken := errors.New("no power")

	if err := DoStep(t.Context(), "node-1", "start", works); err != nil {
		t.Errorf("nobody asked for reports: %v", err)
	}
	if err := DoStep(ctx, "node-1", "start", func(context.Context) (string, error) { return "", broken }); !errors.Is(err, broken) || len(reported) != 0 {
		t.Errorf("a step that failed: %v, %d reports", err, len(reported))
	}
	if err := DoStep(ctx, "node-1", "start", works); !errors.Is(err, stop) || err.Error() != `step "start" on node-1: stop here` {
		t.Errorf("the report does not interrupt: %v", err)
	}
	cancel()
	if err := DoStep(Uninterrupted(ctx), "node-1", "remove", works); err != nil {
		t.Errorf("a step without a way back was interrupted: %v", err)
	}
	if len(reported) != 2 || reported[1].Name != "remove" || reported[1].Proof != "seen" || reported[1].Done.Before(reported[1].Began) {
		t.Errorf("%d steps are reported: %+v", len(reported), reported)
	}
}
