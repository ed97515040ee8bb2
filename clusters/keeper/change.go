package keeper

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-ha/holdfast/clusters"
	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/backup"
	"github.com/holdfast-ha/holdfast/framework/fault"
	"github.com/holdfast-ha/holdfast/framework/workload/client"
)

// UpgradePreparer is the ability of a provider to upgrade nodes of a kept cluster, which the
// cluster does as a framework.Upgrader.
type UpgradePreparer interface {
	// PrepareUpgrade downloads or builds what the request's version needs, if this machine does
	// not have it. It is called outside of where clusters are made.
	PrepareUpgrade(ctx context.Context, h *Handle, r ChangeRequest, p clusters.Preparation) error
}

// ChangeRequest requests a change of a cluster: another version of Kubernetes or of etcd, new
// certificates or CAs, another number of control-plane nodes, or saving or restoring a snapshot
// of etcd.
type ChangeRequest struct {
	// Version is the version to upgrade to; empty for other changes.
	Version string `json:"version,omitempty"`
	// Etcd says that Version is an etcd version instead of a Kubernetes version.
	Etcd bool `json:"etcd,omitempty"`
	// Node is the node to upgrade; empty for all, one after the other, in the order of
	// framework.Upgrader.UpgradeOrder. With fewer Nodes, it is the first to be removed.
	Node string `json:"node,omitempty"`
	// Rotate is what to replace; empty for other changes. Undo rolls back the replacement of
	// the CAs from any stage.
	Rotate Rotation `json:"rotate,omitempty"`
	Undo   bool     `json:"undo,omitempty"`
	// Nodes is the new number of control-plane nodes.
	Nodes int `json:"nodes,omitempty"`
	// Save and Restore are absolute paths of a snapshot. Save is a file that does not exist
	// yet, for the snapshot of Node's member (of the first node's if empty). Restore is the
	// snapshot to restore.
	Save    string `json:"save,omitempty"`
	Restore string `json:"restore,omitempty"`
	// Foreign allows Restore to be a snapshot of another cluster, or of an unknown one.
	Foreign bool `json:"foreign,omitempty"`
	// Check only checks whether the first step would be refused.
	Check bool `json:"check,omitempty"`
}

// changeWait is how long a change waits for the one before it, for example one whose command
// was killed: that one stops after its current step.
const changeWait = time.Minute

// changeEvent is one line of the server's output while it changes nodes.
type changeEvent struct {
	Message string          `json:"message,omitempty"`
	Step    *framework.Step `json:"step,omitempty"`
	Error   string          `json:"error,omitempty"`
	// Refused says that nothing was touched, Done that the change is complete.
	Refused bool `json:"refused,omitempty"`
	Done    bool `json:"done,omitempty"`
}

// progress passes on the cluster's messages: to the client that requested the change, or to the
// command that is creating the cluster.
func (s *server) progress(line string) {
	s.saying.Lock()
	defer s.saying.Unlock()
	if s.listener != nil {
		s.listener(line)
		return
	}
	_ = s.events.Encode(upEvent{Message: line})
}

// listen sends progress to f, or to the default if f is nil.
func (s *server) listen(f func(string)) {
	s.saying.Lock()
	defer s.saying.Unlock()
	s.listener = f
}

func (s *server) handleChange(mux *http.ServeMux) {
	mux.HandleFunc("POST /change", func(w http.ResponseWriter, r *http.Request) {
		out := json.NewEncoder(w)
		var req ChangeRequest
		if err := json.NewDecoder(r.Body).Decode(&req); err != nil {
			_ = out.Encode(changeEvent{Error: fmt.Sprintf("failed to read the request: %v", err), Refused: true})
			return
		}
		flush := http.NewResponseController(w)
		if !s.changing.TryLock() {
			_ = out.Encode(changeEvent{Message: "waiting for another change of the nodes to finish"})
			_ = flush.Flush()
			ctx, cancel := context.WithTimeout(r.Context(), changeWait)
			defer cancel()
			for !s.changing.TryLock() {
				if !client.Pause(ctx, 100*time.Millisecond) {
					_ = out.Encode(changeEvent{Error: fmt.Sprintf("another change of the nodes is under way, and did not finish within %s: try again later", changeWait), Refused: true})
					return
				}
			}
		}
		over := sync.OnceFunc(s.changing.Unlock)
		defer over()
		var mu sync.Mutex
		say := func(e changeEvent) {
			mu.Lock()
			defer mu.Unlock()
			_ = out.Encode(e)
			_ = flush.Flush()
		}
		s.listen(func(line string) { say(changeEvent{Message: line}) })
		// The request's context ends with the connection or the cluster, and cancels the change.
		ctx := framework.WithSteps(r.Context(), func(step framework.Step) error {
			say(changeEvent{Step: &step})
			return nil
		})
		refused, err := s.change(ctx, req)
		s.listen(nil)
		over() // before the client learns of it, and requests the next change
		switch {
		case err == nil:
			say(changeEvent{Done: true})
		case r.Context().Err() == nil:
			say(changeEvent{Error: err.Error(), Refused: refused})
		}
	})
}

// change makes a change; refused reports that nothing was touched.
func (s *server) change(ctx context.Context, r ChangeRequest) (refused bool, err error) {
	switch {
	case r.Version != "":
		return s.upgrade(ctx, r)
	case r.Save != "":
		return s.save(ctx, r)
	case r.Restore != "":
		if !r.Foreign {
			if err := backup.CheckOwn(ctx, s.cluster, r.Restore); err != nil {
				return true, err
			}
		}
		if r.Check {
			return true, nil
		}
		err := backup.Restore(ctx, s.cluster, r.Restore)
		return errors.As(err, new(framework.Untouched)), err
	}
	if r.Rotate != "" {
		return s.rotate(ctx, r)
	}
	return s.scale(ctx, r)
}

// save saves a snapshot of etcd, and verifies it.
func (s *server) save(ctx context.Context, r ChangeRequest) (refused bool, err error) {
	access, ok := s.cluster.(framework.EtcdAccess)
	if !ok {
		return true, fmt.Errorf("cluster %s gives no access to its etcd members", s.cluster.Name())
	}
	names := framework.NodeNames(framework.NodesWith(s.cluster, framework.Etcd))
	node := r.Node
	if node == "" {
		node = backup.Serving(ctx, access, names)
	}
	if !slices.Contains(names, node) {
		return true, fmt.Errorf("cluster %s has no etcd member on %s: its members are on %s", s.cluster.Name(), node, strings.Join(names, ", "))
	}
	if r.Check {
		return true, nil
	}
	return false, framework.DoStep(ctx, node, "save snapshot", func(ctx context.Context) (string, error) {
		// Only a verified snapshot is saved under the requested name.
		dir, err := os.MkdirTemp(filepath.Dir(r.Save), ".holdfast-snapshot-*")
		if err != nil {
			return "", err
		}
		defer os.RemoveAll(dir)
		part := filepath.Join(dir, "snapshot")
		if _, err := backup.Save(ctx, access, node, part); err != nil {
			return "", err
		}
		status, err := backup.Verify(part)
		if err == nil {
			err = os.Link(part, r.Save)
		}
		if err != nil {
			return "", fmt.Errorf("failed to save a snapshot to %s: %w", r.Save, err)
		}
		return status.String() + ", its checksum verified", nil
	})
}

// upgrade upgrades one node or all of them.
func (s *server) upgrade(ctx context.Context, r ChangeRequest) (refused bool, err error) {
	u, ok := s.cluster.(framework.Upgrader)
	if !ok {
		return true, fmt.Errorf("cluster %s has no nodes that can be upgraded", s.cluster.Name())
	}
	names := []string{r.Node}
	if r.Node == "" {
		names = u.UpgradeOrder()
	}
	check, change := u.CheckUpgrade, u.UpgradeNode
	if r.Etcd {
		etcd, ok := s.cluster.(framework.EtcdUpgrader)
		if !ok {
			return true, fmt.Errorf("the etcd members of cluster %s are upgraded with their nodes, by --to", s.cluster.Name())
		}
		check, change = etcd.CheckEtcdUpgrade, etcd.UpgradeEtcd
	}
	if r.Check {
		return true, check(ctx, names[0], r.Version)
	}
	for i, name := range names {
		if err := change(ctx, name, r.Version); err != nil {
			return i == 0 && errors.Is(err, framework.ErrNothingDone), err
		}
	}
	return false, nil
}

// scale adds nodes, or removes some: the requested one first, and then those that joined last.
func (s *server) scale(ctx context.Context, r ChangeRequest) (refused bool, err error) {
	scaler, ok := s.cluster.(framework.Scaler)
	if !ok {
		return true, fmt.Errorf("nodes cannot be added to cluster %s, nor removed from it", s.cluster.Name())
	}
	first := r.Node
	switch is := framework.NodeNames(s.cluster.Nodes()); {
	case first == "":
	case !slices.Contains(is, first) && len(is) == r.Nodes: // it is done
		first = ""
	case !slices.Contains(is, first):
		return true, fmt.Errorf("no such node %s; the nodes are %s", first, strings.Join(is, ", "))
	case r.Nodes >= len(is):
		return true, fmt.Errorf("node %s cannot be removed and %d nodes kept in one command: remove it with `holdfast scale %d --remove %[1]s`, then add nodes with `holdfast scale %[2]d`", first, r.Nodes, len(is)-1)
	}
	if r.Check {
		return true, nil
	}
	before := len(s.cluster.Nodes())
	// Refusals before anything was done, for example because of a risk to the quorum.
	refusal := func(err error) bool {
		return len(s.cluster.Nodes()) == before && errors.Is(err, framework.ErrNothingDone)
	}
	for len(s.cluster.Nodes()) < r.Nodes {
		if _, err := scaler.AddNode(ctx); err != nil {
			return refusal(err), err
		}
	}
	for {
		nodes := s.cluster.Nodes()
		if len(nodes) <= r.Nodes {
			return false, nil
		}
		if err := scaler.RemoveNode(ctx, cmp.Or(first, nodes[len(nodes)-1].Name())); err != nil {
			return refusal(err), err
		}
		first = ""
	}
}

// Change changes nodes of the cluster and returns the steps that took effect, also with an
// error, which names the last of them and says how to finish or undo the change. When ctx ends
// before the change does, an upgrade leaves the node whose turn it is between two versions, and
// asking again continues, as for a rotation; a node that is being added is removed again. What
// is wrong with the request is an error of type fault.Refused.
func (h *Handle) Change(ctx context.Context, r ChangeRequest, p clusters.Preparation) ([]framework.Step, error) {
	preparer, ok := h.provider.(UpgradePreparer)
	if r.Version != "" && !ok {
		return nil, &fault.Refused{Err: fmt.Errorf("nodes of cluster %s cannot be upgraded: the provider %s cannot do that", h.Name, h.provider.Name())}
	}
	check := r
	check.Check = true
	if _, err := h.askChange(ctx, check, p.Progress); err != nil {
		return nil, err
	}
	if r.Version != "" {
		if err := preparer.PrepareUpgrade(ctx, h, r, p); err != nil {
			return nil, err
		}
	}
	return h.askChange(ctx, r, p.Progress)
}

func (h *Handle) askChange(ctx context.Context, r ChangeRequest, progress func(string)) (steps []framework.Step, err error) {
	body, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	c := h.server()
	defer c.Close()
	resp, err := c.Send(ctx, http.MethodPost, "change", bytes.NewReader(body))
	if err != nil && ctx.Err() != nil {
		return nil, unfinished(ctx, r, nil, err) // the server may have received it
	}
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if progress == nil {
		progress = func(string) {}
	}
	for lines := json.NewDecoder(resp.Body); ; {
		var e changeEvent
		err := lines.Decode(&e)
		switch {
		case errors.Is(err, io.EOF):
			return steps, fmt.Errorf("failed to change the nodes of cluster %s: the cluster was deleted in the meantime", h.Name)
		case err != nil:
			return steps, unfinished(ctx, r, steps, fmt.Errorf("failed to change the nodes of cluster %s: %w", h.Name, err))
		case e.Refused:
			return nil, &fault.Refused{Err: errors.New(e.Error)}
		case e.Error != "":
			return steps, unfinished(ctx, r, steps, errors.New(e.Error))
		case e.Done:
			return steps, nil
		case e.Step != nil:
			steps = append(steps, *e.Step)
			progress(fmt.Sprintf("%s: %s: %s (%s)", e.Step.Node, e.Step.Name, e.Step.Proof, e.Step.Done.Sub(e.Step.Began).Round(10*time.Millisecond)))
		default:
			progress(e.Message)
		}
	}
}
