package framework

import (
	"context"
	"fmt"
	"time"
)

// Step is one step of a change to the cluster's nodes that took effect, such as the
// promotion of an etcd member while a node is added.
type Step struct {
	// Node is the name of the node that the step changed; empty if it changed none.
	Node string `json:"node,omitempty"`
	// Name says what the step did, such as "promote etcd member".
	Name string `json:"name"`
	// Component is the one that the step restarted in Version; empty for another step.
	Component Component `json:"component,omitempty"`
	Version   string    `json:"version,omitempty"`
	// Proof is what shows that it took effect, such as the version that the API server
	// answered.
	Proof string `json:"proof"`
	// Began is when the step started, Done when its proof was seen.
	Began time.Time `json:"began"`
	Done  time.Time `json:"done"`
}

type stepsKey struct{}

// WithSteps returns a context in which every change of a Scaler or an Upgrader reports its
// steps to report, each as soon as it took effect. An error that report returns interrupts
// the change after that step, as the end of the context would: the change undoes what it
// can and returns an error that wraps it.
func WithSteps(ctx context.Context, report func(Step) error) context.Context {
	return context.WithValue(ctx, stepsKey{}, report)
}

// Uninterrupted returns a context for steps that cannot be undone and must be completed:
// they are reported, but neither the end of ctx nor the report interrupts them.
func Uninterrupted(ctx context.Context) context.Context {
	report, ok := ctx.Value(stepsKey{}).(func(Step) error)
	ctx = context.WithoutCancel(ctx)
	if !ok {
		return ctx
	}
	return WithSteps(ctx, func(s Step) error { _ = report(s); return nil })
}

// DoStep makes one step of a change: do changes the node and returns the proof of it. Its
// errors name the step and the node.
func DoStep(ctx context.Context, node, name string, do func(context.Context) (proof string, err error)) error {
	return doStep(ctx, Step{Node: node, Name: name}, do)
}

// Restart makes the step that restarts a component of a node in a version.
func Restart(ctx context.Context, node string, c Component, version string, do func(context.Context) (proof string, err error)) error {
	return doStep(ctx, Step{Node: node, Name: "restart " + string(c) + " in " + version, Component: c, Version: version}, do)
}

func doStep(ctx context.Context, s Step, do func(context.Context) (proof string, err error)) error {
	s.Began = time.Now()
	var err error
	if s.Proof, err = do(ctx); err == nil {
		s.Done = time.Now()
		err = ReportStep(ctx, s)
	}
	if err != nil {
		return fmt.Errorf("step %q on %s: %w", s.Name, s.Node, err)
	}
	return nil
}

// ReportStep reports a step that took effect, for a provider that learns of it only then.
// Its error is that of the report.
func ReportStep(ctx context.Context, s Step) error {
	if report, ok := ctx.Value(stepsKey{}).(func(Step) error); ok {
		return report(s)
	}
	return nil
}
