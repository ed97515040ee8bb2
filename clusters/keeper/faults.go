package keeper

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/holdfast-ha/holdfast/clusters/agenthttp"
	"github.com/holdfast-ha/holdfast/framework/fault"
)

// The server of a cluster made by Up injects and heals its faults. It lives as long as the
// cluster, so the client may exit.

// InjectRequest requests a fault.
type InjectRequest struct {
	Fault string `json:"fault"`
	// On is the target, as for fault.Resolve.
	On string `json:"on"`
	// For is the time to live.
	For    time.Duration     `json:"for"`
	Params map[string]string `json:"params,omitempty"`
}

// faultAnswer is the server's answer about injections.
type faultAnswer struct {
	Entries []fault.Entry `json:"entries"`
	Error   string        `json:"error,omitempty"`
	// Refused says that nothing was touched, since the request was wrong.
	Refused bool `json:"refused,omitempty"`
}

func (s *server) handleFaults(mux *http.ServeMux) {
	agenthttp.Answer(mux, "POST /inject", func(ctx context.Context, r InjectRequest) (any, error) {
		// The request's context ends with the connection, so an injection is undone if its
		// client has disconnected.
		e, err := s.board.Inject(ctx, r.Fault, r.On, fault.Params{TTL: r.For, Values: r.Params})
		return faultsOf([]fault.Entry{e}, err), nil
	})
	agenthttp.Answer(mux, "POST /heal", func(ctx context.Context, ids []string) (any, error) {
		// Healing continues after the client has disconnected.
		entries, err := s.board.Heal(context.WithoutCancel(ctx), ids...)
		return faultsOf(entries, err), nil
	})
}

// faultsOf returns the answer about injections, which has an error of one as well.
func faultsOf(entries []fault.Entry, err error) faultAnswer {
	a := faultAnswer{Entries: entries}
	if err != nil {
		a.Error = err.Error()
		a.Refused = errors.As(err, new(*fault.Refused))
	}
	return a
}

// noteFault logs a change of an injection in the cluster's log of faults.
func (s *server) noteFault(e fault.Entry) {
	line, err := json.Marshal(struct {
		Time time.Time `json:"time"`
		fault.Entry
	}{time.Now(), e})
	path := filepath.Join(s.dir, faultsLog)
	if err == nil {
		err = os.MkdirAll(filepath.Dir(path), 0o755)
	}
	if err == nil {
		var f *os.File
		if f, err = os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600); err == nil {
			_, err = f.Write(append(line, '\n'))
			_ = f.Close()
		}
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "holdfast: writing the log of faults: %v\n", err)
	}
}

// Inject injects a fault into the cluster and returns when its effect is proven or known not to
// come. The fault stays active, even if the caller exits, until it is healed or its time to
// live is over. If ctx ends first, it is undone. An error in the request has type
// fault.Refused.
func (h *Handle) Inject(ctx context.Context, r InjectRequest) (fault.Entry, error) {
	entries, err := h.faults(ctx, "inject", r)
	if err == nil && len(entries) != 1 {
		err = fmt.Errorf("failed to ask cluster %s to inject: it answered with %d injections", h.Name, len(entries))
	}
	if err != nil {
		return fault.Entry{}, err
	}
	return entries[0], nil
}

// Heal heals injections by name, or all if no names are given, and returns the result of each.
func (h *Handle) Heal(ctx context.Context, ids ...string) ([]fault.Entry, error) {
	if ids == nil {
		ids = []string{}
	}
	return h.faults(ctx, "heal", ids)
}

func (h *Handle) faults(ctx context.Context, path string, request any) ([]fault.Entry, error) {
	c := h.server()
	defer c.Close()
	var a faultAnswer
	if err := c.Call(ctx, http.MethodPost, path, request, &a); err != nil {
		return nil, fmt.Errorf("failed to ask cluster %s to %s: %w", h.Name, path, err)
	}
	switch {
	case a.Refused:
		return a.Entries, &fault.Refused{Err: errors.New(a.Error)}
	case a.Error != "":
		return a.Entries, errors.New(a.Error)
	}
	return a.Entries, nil
}
