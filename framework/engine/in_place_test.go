package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/record"
)

// movedCluster can be moved to other versions and arguments, with a step for each component.
type movedCluster struct {
	*fakeCluster
	versions map[string]map[framework.Component]string
	attempts int
	fails    int // the attempt that fails before its first step
}

func (c *movedCluster) Versions() map[string]map[framework.Component]string { return c.versions }

func (c *movedCluster) attempt() error {
	if c.attempts++; c.attempts == c.fails {
		return errors.New("the disk is full")
	}
	return nil
}

func (c *movedCluster) restart(ctx context.Context, node string, component framework.Component, version string) error {
	return framework.Restart(ctx, node, component, version, func(context.Context) (string, error) {
		c.versions[node][component] = version
		return "it serves", nil
	})
}

func (c *movedCluster) UpgradeNode(ctx context.Context, name, version string) error {
	if err := c.attempt(); err != nil {
		return err
	}
	for _, component := range []framework.Component{framework.APIServer, framework.Scheduler} {
		if c.versions[name][component] == version {
			continue
		}
		if err := c.restart(ctx, name, component, version); err != nil {
			return fmt.Errorf("upgrading %s: %w", name, err)
		}
	}
	return nil
}

func (c *movedCluster) CheckUpgrade(context.Context, string, string) error { return nil }

func (c *movedCluster) UpgradeOrder() []string { return nil }

func (c *movedCluster) Reconfigure(ctx context.Context, name string, args map[framework.Component]map[string]string) error {
	if err := c.attempt(); err != nil {
		return err
	}
	for _, component := range sortedKeys(args) {
		if err := c.restart(ctx, name, component, c.versions[name][component]); err != nil {
			return fmt.Errorf("reconfiguring %s: %w", name, err)
		}
	}
	return nil
}

// A change in place that is interrupted is finished or taken back, within the same change.
func TestInterruptedInPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const older, newer = "v1.36.3", "v1.37.1"
		fake := newFake(t)
		upgrade := func(interrupt int, undo bool) Action {
			return Action{Name: "upgrade", ID: "cut", Node: "2", To: newer, Interrupt: interrupt, Undo: undo}
		}
		for name, test := range map[string]struct {
			action      Action
			fails       int
			phase       record.ChangePhase
			to          string
			interrupted int
			steps       []string
			restarts    []string
		}{
			"not interrupted": {upgrade(0, false), 0, record.NodeChanged, newer, 0, []string{"kube-apiserver v1.37.1", "kube-scheduler v1.37.1"}, nil},
			"finished":        {upgrade(1, false), 0, record.NodeChanged, newer, 1, []string{"kube-apiserver v1.37.1", "kube-scheduler v1.37.1"}, nil},
			"after the last":  {upgrade(2, false), 0, record.NodeChanged, newer, 2, []string{"kube-apiserver v1.37.1", "kube-scheduler v1.37.1"}, nil},
			"taken back":      {upgrade(1, true), 0, record.NodeChanged, older, 1, []string{"kube-apiserver v1.37.1", "kube-apiserver v1.36.3"}, nil},
			"no such step":    {upgrade(9, false), 0, record.NodeChanged, newer, 0, []string{"kube-apiserver v1.37.1", "kube-scheduler v1.37.1"}, nil},
			"no such step, taken back": {upgrade(9, true), 0, record.NodeChanged, older, 0,
				[]string{"kube-apiserver v1.37.1", "kube-scheduler v1.37.1", "kube-apiserver v1.36.3", "kube-scheduler v1.36.3"}, nil},
			"not finished":       {upgrade(1, false), 2, record.NodeFailed, newer, 1, []string{"kube-apiserver v1.37.1"}, nil},
			"failed before that": {upgrade(1, false), 1, record.NodeFailed, newer, 0, nil, nil},
			"restarted": {Action{Name: "reconfigure", ID: "cut", Node: "2", Interrupt: 1, Args: map[string]map[string]string{"kube-scheduler": {"v": "1"}, "kube-apiserver": {"v": "1"}}}, 0,
				record.NodeChanged, "", 1, []string{"kube-apiserver v1.36.3", "kube-apiserver v1.36.3", "kube-scheduler v1.36.3"}, []string{"kube-apiserver", "kube-scheduler"}},
		} {
			c := &movedCluster{fakeCluster: fake, fails: test.fails, versions: map[string]map[framework.Component]string{}}
			for _, n := range fake.Nodes() {
				c.versions[n.Name()] = map[framework.Component]string{framework.APIServer: older, framework.Scheduler: older}
			}
			run, err := carryOut(t.Context(), t, c, Options{}, Step{Action: &test.action})
			if err != nil {
				t.Fatal(name, err)
			}
			var steps []string
			for _, s := range run.Steps {
				if s.V.Change == "cut" && s.V.Node == "node-2" {
					steps = append(steps, s.V.Component+" "+s.V.Version)
				}
			}
			if !slices.Equal(steps, test.steps) {
				t.Errorf("%s: steps %q, want %q", name, steps, test.steps)
			}
			if len(run.Changes) != 1 {
				t.Errorf("%s: recorded %+v", name, run.Changes)
				continue
			}
			got := run.Changes[0].V
			if got.Phase != test.phase || got.To != test.to || got.Interrupted != test.interrupted || got.Node.Name != "node-2" || !slices.Equal(got.Restarts, test.restarts) {
				t.Errorf("%s: recorded %+v", name, got)
			}
			if test.to != "" && got.From != older {
				t.Errorf("%s: from %s", name, got.From)
			}
			if is := c.versions["node-2"][framework.APIServer]; test.phase == record.NodeChanged && test.to != "" && is != test.to {
				t.Errorf("%s: the API server is %s", name, is)
			}
		}
	})
}
