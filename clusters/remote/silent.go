package remote

import (
	"context"
	"errors"
	"net/http"
	"slices"

	"github.com/holdfast-ha/holdfast/clusters"
	"github.com/holdfast-ha/holdfast/clusters/internal/await"
	"github.com/holdfast-ha/holdfast/framework"
)

// A cluster is also observed while one of its API servers is silent: what any of them can answer is
// read from another one, and its node is observed as far as something of it is found.

// read reads what any API server can answer, through the first entrance that does. It begins with the
// one that answered last.
func (a *access) read(ctx context.Context, path string, into any) error {
	last := int(a.answered.Load())
	var problems []error
	for i := range a.entrances {
		at := (last + i) % len(a.entrances)
		err := getInto(ctx, a.entrances[at], path, into)
		status := await.StatusError{}
		if err == nil || errors.As(err, &status) && status.Code < http.StatusInternalServerError {
			a.answered.Store(int32(at))
			return err
		}
		problems = append(problems, err)
	}
	return errors.Join(problems...)
}

// lookAt inspects a node. If that is tolerated, a node whose API server is silent may be without it, and
// one that then cannot be inspected is lost.
func (a *access) lookAt(ctx context.Context, on shell, n clusters.InventoryNode, tolerant bool) (*found, error) {
	s, err := on.lookFor(ctx, a.Spec.Distribution, n)
	var f *found
	if err == nil {
		f, err = detect(a.Spec.Distribution, n, s)
	}
	if err != nil && tolerant && a.silent(ctx, n) {
		f, err = detectSilent(a.Spec.Distribution, n, s, err)
	}
	if err != nil || !f.known() {
		return f, err
	}
	return f, f.readConfig(ctx, on)
}

// silent reports whether the API server on a node does not answer. A host of etcd has none.
func (a *access) silent(ctx context.Context, n clusters.InventoryNode) bool {
	e := a.server(n.Name)
	if e.Config == nil {
		return false
	}
	_, err := get(ctx, e, "/version")
	return err != nil
}

// detectSilent is detect for a node whose API server is silent. If no profile fits, and no API server
// runs, the node is lost: why is the error of detect. s is what was seen on it; nil if it cannot be
// reached.
func detectSilent(name string, n clusters.InventoryNode, s *sight, why error) (*found, error) {
	if s == nil {
		return &found{node: n, sight: &sight{}, lost: why}, nil
	}
	s.silent = true
	f, err := detect(name, n, s)
	switch {
	case err == nil:
		return f, nil
	case s.serves(name, n):
		return nil, why
	}
	return &found{node: n, sight: s, lost: why}, nil
}

// serves reports whether a process may be the API server of a profile that is tried on a node.
func (s *sight) serves(name string, n clusters.InventoryNode) bool {
	return slices.ContainsFunc(profilesFor(name, n), func(one string) bool {
		p, err := profileOf(one)
		return err == nil && slices.ContainsFunc(p.Components, func(c ProfileComponent) bool {
			return c.Name == framework.APIServer && len(s.find(c.Command, c.Parent)) > 0
		})
	})
}

// known reports whether a node was found; f is nil if it was not looked for.
func (f *found) known() bool { return f != nil && f.lost == nil }
