package kind

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"

	"github.com/holdfast-ha/holdfast/clusters/internal/await"
	"github.com/holdfast-ha/holdfast/clusters/internal/readiness"
	"github.com/holdfast-ha/holdfast/framework"
)

// readyLimit is how long a cluster may take to be ready after kubeadm is done. It takes some
// ten seconds; the limit is for very slow machines.
const readyLimit = 5 * time.Minute

// Ready returns when every API server is ready, directly and through the balancer, each elected
// component has a holder, and all nodes and all system pods are ready. Otherwise it returns
// which is not, and why.
func (c *Cluster) Ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, readyLimit, fmt.Errorf("not ready after %s", readyLimit))
	defer cancel()
	g, gctx := errgroup.WithContext(ctx)
	for _, e := range c.Entrances() {
		g.Go(func() error {
			if _, err := await.API(gctx, e, "/readyz", await.Anything); err != nil {
				return fmt.Errorf("%s %s is not ready: %w", e.Kind, e.Name, err)
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	e := c.Entrances()[0]
	nodes := framework.NodeNames(slices.Concat(c.controlPlane(), c.workers))
	if _, err := await.API(ctx, e, "/api/v1/nodes", func(body []byte) error { return readiness.Listed(body, nodes) }); err != nil {
		return err
	}
	if _, err := await.API(ctx, e, "/api/v1/namespaces/kube-system/pods", c.podsReady); err != nil {
		return err
	}
	for _, elected := range []framework.Component{framework.ControllerManager, framework.Scheduler} {
		if !c.elects(elected) {
			continue
		}
		if _, err := await.API(ctx, e, await.LeasePath(elected), await.Holder); err != nil {
			return fmt.Errorf("no instance of %s is active: %w", elected, err)
		}
	}
	return nil
}

// elects reports whether leader election is on for a component on every node.
func (c *Cluster) elects(component framework.Component) bool {
	return !slices.ContainsFunc(c.controlPlane(), func(n *node) bool { return !n.spec.Elects(component) })
}

// podsReady accepts a list in which each pod is ready or completed.
func (c *Cluster) podsReady(body []byte) error {
	var list corev1.PodList
	if err := json.Unmarshal(body, &list); err != nil {
		return fmt.Errorf("failed to read the list of pods: %w", err)
	}
	if len(list.Items) == 0 {
		return errors.New("kube-system has no pods")
	}
	var problems []error
	for _, p := range list.Items {
		if why := podNotReady(p); why != "" {
			problems = append(problems, fmt.Errorf("pod %s on %s is not ready: %s", p.Name, p.Spec.NodeName, why))
		}
	}
	return errors.Join(problems...)
}

// podNotReady returns why a pod is not ready; empty if it is ready or completed.
func podNotReady(p corev1.Pod) string {
	if p.Status.Phase == corev1.PodSucceeded {
		return ""
	}
	why := string(p.Status.Phase)
	for _, condition := range p.Status.Conditions {
		if condition.Type == corev1.PodReady && condition.Status == corev1.ConditionTrue {
			return ""
		}
		if condition.Status != corev1.ConditionTrue && condition.Message != "" {
			why = condition.Message
		}
	}
	for _, container := range p.Status.ContainerStatuses {
		switch state := container.State; {
		case state.Waiting != nil && state.Waiting.Reason != "":
			why += fmt.Sprintf("; %s waits: %s %s", container.Name, state.Waiting.Reason, state.Waiting.Message)
		case state.Terminated != nil:
			why += fmt.Sprintf("; %s exited: %s, exit code %d", container.Name, state.Terminated.Reason, state.Terminated.ExitCode)
		}
	}
	return strings.TrimSpace(why)
}
