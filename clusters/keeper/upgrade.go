package keeper

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/holdfast-ha/holdfast/clusters"
	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/fault"
)

// UpgradePreparer is the ability of a provider to have nodes of a kept cluster upgraded,
// by what the cluster can do as a framework.Upgrader.
type UpgradePreparer interface {
	// PrepareUpgrade gets what nodes of a version are made of, as far as this machine
	// lacks it. It is called outside of where clusters are made.
	PrepareUpgrade(ctx context.Context, h *Handle, version string, p clusters.Preparation) error
}

// UpgradeRequest asks for another version of Kubernetes.
type UpgradeRequest struct {
	// Node is the one to upgrade; empty for all, one after the other, as
	// framework.Upgrader.UpgradeOrder has them.
	Node    string `json:"node,omitempty"`
	Version string `json:"version"`
	// Check asks only whether the first of them would be refused.
	Check bool `json:"check,omitempty"`
}

// upgradeEvent is one line of what the server says while it upgrades.
type upgradeEvent struct {
	Message string `json:"message,omitempty"`
	Error   string `json:"error,omitempty"`
	// Refused says that nothing was touched, Done that all is.
	Refused bool `json:"refused,omitempty"`
	Done    bool `json:"done,omitempty"`
}

// progress passes on what the cluster says: to whoever has asked for what it does, or to
// the command that is making it.
func (s *server) progress(line string) {
	s.saying.Lock()
	defer s.saying.Unlock()
	if s.listener != nil {
		s.listener(line)
		return
	}
	_ = s.events.Encode(upEvent{Message: line})
}

// listen has progress told to f, or as before where that is nil.
func (s *server) listen(f func(string)) {
	s.saying.Lock()
	defer s.saying.Unlock()
	s.listener = f
}

func (s *server) handleUpgrade(mux *http.ServeMux) {
	mux.HandleFunc("POST /upgrade", func(w http.ResponseWriter, r *http.Request) {
		out := json.NewEncoder(w)
		var req UpgradeRequest
		if err := json.NewDecoder(r.Body).Decode(&req); err != nil {
			_ = out.Encode(upgradeEvent{Error: fmt.Sprintf("reading the request: %v", err), Refused: true})
			return
		}
		if !s.upgrading.TryLock() {
			_ = out.Encode(upgradeEvent{Error: "another upgrade is under way", Refused: true})
			return
		}
		defer s.upgrading.Unlock()
		flush := http.NewResponseController(w)
		s.listen(func(line string) {
			_ = out.Encode(upgradeEvent{Message: line})
			_ = flush.Flush()
		})
		// The request's context ends with the connection, and the upgrade with it.
		refused, err := s.upgrade(r.Context(), req)
		s.listen(nil)
		if err != nil {
			_ = out.Encode(upgradeEvent{Error: err.Error(), Refused: refused})
			return
		}
		_ = out.Encode(upgradeEvent{Done: true})
	})
}

// upgrade upgrades one node or all of them; refused tells that nothing was touched.
func (s *server) upgrade(ctx context.Context, r UpgradeRequest) (refused bool, err error) {
	u, ok := s.cluster.(framework.Upgrader)
	if !ok {
		return true, fmt.Errorf("cluster %s has no nodes that can be upgraded", s.cluster.Name())
	}
	names := []string{r.Node}
	if r.Node == "" {
		names = u.UpgradeOrder()
	}
	if r.Check {
		return true, u.CheckUpgrade(ctx, names[0], r.Version)
	}
	for i, name := range names {
		if err := u.UpgradeNode(ctx, name, r.Version); err != nil {
			return i == 0 && errors.Is(err, framework.ErrNothingDone), err
		}
	}
	return false, nil
}

// Upgrade has one node of the cluster, or all of them, change to another version of
// Kubernetes, and returns when they serve in it. When ctx ends before, the node whose turn
// it is stays between two versions; asking again goes on. What is wrong with the request
// is an error of type fault.Refused.
func (h *Handle) Upgrade(ctx context.Context, r UpgradeRequest, p clusters.Preparation) error {
	preparer, ok := h.provider.(UpgradePreparer)
	if !ok {
		return &fault.Refused{Err: fmt.Errorf("nodes of cluster %s cannot be upgraded: the provider %s cannot do that", h.Name, h.provider.Name())}
	}
	check := r
	check.Check = true
	if err := h.askUpgrade(ctx, check, p.Progress); err != nil {
		return err
	}
	if err := preparer.PrepareUpgrade(ctx, h, r.Version, p); err != nil {
		return err
	}
	return h.askUpgrade(ctx, r, p.Progress)
}

func (h *Handle) askUpgrade(ctx context.Context, r UpgradeRequest, progress func(string)) error {
	body, err := json.Marshal(r)
	if err != nil {
		return err
	}
	resp, err := h.call(ctx, http.MethodPost, "upgrade", bytes.NewReader(body))
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	for lines := json.NewDecoder(resp.Body); ; {
		var e upgradeEvent
		err := lines.Decode(&e)
		switch {
		case errors.Is(err, io.EOF):
			return fmt.Errorf("upgrading cluster %s: it has ended meanwhile", h.Name)
		case err != nil:
			return fmt.Errorf("upgrading cluster %s: %w", h.Name, err)
		case e.Refused:
			return &fault.Refused{Err: errors.New(e.Error)}
		case e.Error != "":
			return errors.New(e.Error)
		case e.Done:
			return nil
		case progress != nil:
			progress(e.Message)
		}
	}
}
